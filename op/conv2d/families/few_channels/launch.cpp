#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "chip/chip_of_device.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/few_channels/add_fringe.h"
#include "conv2d/families/few_channels/instances.h"
#include "conv2d/families/few_channels/pack_filter.h"
#include "conv2d/family.h"

namespace haloconv::few_channels {

namespace {

template <class T>
void launch(const Instance& instance, const Arguments& args, unsigned blocks, cudaStream_t stream) {
  if (instance == Instance{3, 16}) return launch_instance<T, 3, 16, false>(args, blocks, stream);
  if (instance == Instance{3, 48, true})
    return launch_instance<T, 3, 48, true>(args, blocks, stream);
  if (instance == Instance{3, 48}) return launch_instance<T, 3, 48, false>(args, blocks, stream);
  if (instance == Instance{5, 24}) return launch_instance<T, 5, 24, false>(args, blocks, stream);
  throw std::logic_error("haloconv: no few_channels kernel has these taps");
}

// Packs the filter, then starts the kernel, then adds the fringe's sums if there is a fringe.
template <class T>
void launch(const Plan& plan, Arguments args, const Operands& operands, cudaStream_t stream) {
  launch_pack_filter(args, static_cast<const T*>(operands.filter), operands.workspace, stream);
  args.source = plan.direction == Direction::kFprop ? operands.input : operands.output;
  args.packed = operands.workspace;
  args.bias = operands.bias;
  args.destination = operands.result;
  args.fringe =
      reinterpret_cast<float*>(static_cast<char*>(operands.workspace) + args.weights_bytes);
  const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(args.source) / sizeof(T));
  // For 16-bit types no plan is made for such tensors.
  if (std::is_same_v<T, float> && address % 2 != 0) args.vector = 1;
  const auto result = reinterpret_cast<uintptr_t>(operands.result);
  args.writes_pairs = args.writes_pairs && result % (2 * sizeof(T)) == 0;
  args.source_at = address % (16 / sizeof(T));
  const auto blocks = std::min<int64_t>(args.items, chip_of_current_device().multiprocessors);
  launch<T>(plan.instance, args, static_cast<unsigned>(blocks), stream);
  if (args.bands > 1 && args.fringe_columns() > 0) launch_add_fringe<T>(args, stream);
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  if (!made.details.arguments)
    throw std::logic_error("haloconv: a few_channels plan has no arguments");
  with_element(made.problem.type, [&](auto element) {
    launch<decltype(element)>(made.details, *made.details.arguments, operands, stream);
  });
}

}  // namespace haloconv::few_channels
