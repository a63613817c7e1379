#include <stdexcept>

#include "chip/chip_of_device.h"
#include "conv2d/families/phase_pairs/instances.h"
#include "conv2d/families/phase_pairs/pack_filter.h"
#include "conv2d/family.h"
#include "cuda/tma.h"

namespace haloconv::phase_pairs {

namespace {

// The copy engine rounds to TF32.
CUtensorMap source_map(const Arguments& args, const void* source) {
  TensorView view{
      .address = source, .type = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, .element_bytes = 4, .rank = 4};
  for (int i = 0; i < 4; ++i) {
    view.extents[i] = args.source_extents[i];
    view.strides[i] = args.source_strides[i];
  }
  const auto map = make_tiled_map(view, args.box, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (!map) {
    throw std::runtime_error(
        "haloconv: no tensor map describes the output's gradient: its address was expected to be a "
        "multiple of 16 bytes");
  }
  return *map;
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const Plan& details = made_by_family<Plan>(plan).details;
  if (!details.arguments) throw std::logic_error("haloconv: a phase_pairs plan has no arguments");
  Arguments args = *details.arguments;
  const Tile& tile = details.tile;
  launch_pack_filter(args, tile, static_cast<const float*>(operands.filter), operands.workspace,
                     stream);
  args.packed = operands.workspace;
  args.is_fused = !operands.fusion.is_none();
  (args.is_fused ? args.fused_bias : args.bias) = static_cast<const float*>(operands.bias);
  args.fusion = operands.fusion;
  args.destination = static_cast<float*>(operands.result);
  args.pairs = args.pairs && reinterpret_cast<uintptr_t>(operands.result) % 8 == 0;
  const CUtensorMap source = source_map(args, operands.output);
  const int multiprocessors = chip_of_current_device().multiprocessors;
  const auto launch_one = [&]<int kPattern>() {
    launch_instance<kPattern>(tile, args, source, multiprocessors, stream);
  };
  if (tile.pattern == kPatterns[0]) return launch_one.template operator()<0>();
  if (tile.pattern == kPatterns[1]) return launch_one.template operator()<1>();
  if (tile.pattern == kPatterns[2]) return launch_one.template operator()<2>();
  if (tile.pattern == kPatterns[3]) return launch_one.template operator()<3>();
  throw std::logic_error("haloconv: no phase_pairs kernel has this pattern");
}

}  // namespace haloconv::phase_pairs
