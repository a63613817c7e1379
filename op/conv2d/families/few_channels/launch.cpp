#include "conv2d/families/few_channels/launch.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "chip/chip_of_device.h"
#include "conv2d/families/few_channels/add_fringe.h"
#include "conv2d/families/few_channels/instances.h"
#include "conv2d/families/few_channels/pack_filter.h"
#include "conv2d/family.h"

namespace haloconv::sm90::scatter {

namespace {

void launch_instance(const Instance& instance, const Arguments& args, unsigned blocks,
                     cudaStream_t stream) {
  if (instance == Instance{3, 16}) return launch_3x16(args, blocks, stream);
  if (instance == Instance{3, 48}) return launch_3x48(args, blocks, stream);
  if (instance == Instance{5, 24}) return launch_5x24(args, blocks, stream);
  throw std::logic_error("haloconv: no sm90 scatter kernel has these taps");
}

}  // namespace

void launch(const Plan& plan, const float* source, const float* filter, const float* bias,
            float* destination, void* workspace, int multiprocessors, cudaStream_t stream) {
  if (!plan.arguments) throw std::logic_error("haloconv: a scatter plan has no arguments");
  Arguments args = *plan.arguments;
  launch_pack_filter(args, filter, workspace, stream);
  args.source = source;
  args.packed = workspace;
  args.bias = bias;
  args.destination = destination;
  args.fringe = static_cast<float*>(workspace) + args.packed_values();
  const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(source) / sizeof(float));
  if (address % 2 != 0) args.vector = 1;
  args.source_at = address % 4;
  const int64_t blocks = std::min<int64_t>(args.items, multiprocessors);
  launch_instance(plan.instance, args, static_cast<unsigned>(blocks), stream);
  if (args.strips > 1 && args.fringe_columns() > 0) launch_add_fringe(args, stream);
}

}  // namespace haloconv::sm90::scatter

namespace haloconv::few_channels {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::scatter::Plan>(plan);
  const bool fprop = made.details.direction == Direction::kFprop;
  const auto floats = [](const void* values) { return static_cast<const float*>(values); };
  sm90::scatter::launch(made.details, floats(fprop ? operands.input : operands.output),
                        floats(operands.filter), floats(operands.bias),
                        static_cast<float*>(operands.result), operands.workspace,
                        chip_of_current_device().multiprocessors, stream);
}

}  // namespace haloconv::few_channels
