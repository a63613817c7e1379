#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "chip/chip_of_device.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/row_strips/instances.h"
#include "conv2d/families/row_strips/pack_filter.h"
#include "conv2d/family.h"

namespace haloconv::row_strips {

namespace {

// Packs the filter, then starts the kernel.
template <class T>
void launch(const Plan& plan, Arguments args, const Operands& operands, cudaStream_t stream) {
  launch_pack_filter(args, static_cast<const T*>(operands.filter), operands.workspace, stream);
  args.source = plan.direction == Direction::kFprop ? operands.input : operands.output;
  args.packed = operands.workspace;
  args.bias = operands.bias;
  args.destination = operands.result;
  const int32_t workers = chip_of_current_device().multiprocessors / args.blocks;
  const auto blocks = static_cast<unsigned>(std::min(args.items, workers) * args.blocks);
  if constexpr (std::is_same_v<T, float>) {
    if (args.blocks > 1) return launch_instance<float, 2>(args, blocks, stream);
  }
  launch_instance<T, 1>(args, blocks, stream);
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  if (!made.details.arguments)
    throw std::logic_error("haloconv: a row_strips plan has no arguments");
  with_element(made.problem.type, [&](auto element) {
    launch<decltype(element)>(made.details, *made.details.arguments, operands, stream);
  });
}

}  // namespace haloconv::row_strips
