#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "chip/chip_of_device.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/all_phases/instances.h"
#include "conv2d/families/all_phases/pack.h"
#include "conv2d/family.h"

namespace haloconv::all_phases {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const PlanOf<Plan>& made = made_by_family<Plan>(plan);
  const Plan& details = made.details;
  if (!details.arguments) throw std::logic_error("haloconv: an all_phases plan has no arguments");
  Arguments args = *details.arguments;
  args.source = operands.output;
  args.filter = operands.filter;
  args.packed = operands.workspace;
  if (details.tile.packs_source) {
    args.packed_source = static_cast<char*>(operands.workspace) + args.packed_bytes;
  }
  args.bias = operands.bias;
  args.destination = operands.result;
  args.fusion = operands.fusion;
  args.is_fused = !operands.fusion.is_none();
  args.writes_pairs =
      args.writes_pairs &&
      reinterpret_cast<uintptr_t>(operands.result) % (2 * size_of(made.problem.type)) == 0;
  launch_pack(args, details.tile, made.problem.type, operands.workspace, stream);
  const int multiprocessors = chip_of_current_device().multiprocessors;
  with_element(made.problem.type, [&](auto element) {
    launch_instance<decltype(element)>(details.tile, args, multiprocessors, stream);
  });
}

}  // namespace haloconv::all_phases
