#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "chip/chip_of_device.h"
#include "conv2d/families/few_channels/add_fringe.h"
#include "conv2d/families/few_channels/instances.h"
#include "conv2d/families/few_channels/pack_filter.h"
#include "conv2d/family.h"

namespace haloconv::few_channels {

namespace {

void launch_instance(const Instance& instance, const Arguments& args, unsigned blocks,
                     cudaStream_t stream) {
  if (instance == Instance{3, 16}) return launch_3x16(args, blocks, stream);
  if (instance == Instance{3, 48}) return launch_3x48(args, blocks, stream);
  if (instance == Instance{5, 24}) return launch_5x24(args, blocks, stream);
  throw std::logic_error("haloconv: no few_channels kernel has these taps");
}

}  // namespace

// The packing of the filter, then the kernel, then the sums of the fringe where there is one.
void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const Plan& details = made_by_family<Plan>(plan).details;
  if (!details.arguments) throw std::logic_error("haloconv: a few_channels plan has no arguments");
  Arguments args = *details.arguments;
  launch_pack_filter(args, static_cast<const float*>(operands.filter), operands.workspace, stream);
  args.source = static_cast<const float*>(details.direction == Direction::kFprop ? operands.input
                                                                                 : operands.output);
  args.packed = operands.workspace;
  args.bias = static_cast<const float*>(operands.bias);
  args.destination = static_cast<float*>(operands.result);
  args.fringe = static_cast<float*>(operands.workspace) + args.packed_values();
  const auto address =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(args.source) / sizeof(float));
  if (address % 2 != 0) args.vector = 1;
  args.source_at = address % 4;
  const auto blocks = std::min<int64_t>(args.items, chip_of_current_device().multiprocessors);
  launch_instance(details.instance, args, static_cast<unsigned>(blocks), stream);
  if (args.bands > 1 && args.fringe_columns() > 0) launch_add_fringe(args, stream);
}

}  // namespace haloconv::few_channels
