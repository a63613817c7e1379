#include "conv2d/families/wgrad/row_maps.h"

#include "conv2d/geometry/integers.h"
#include "cuda/tma.h"

namespace haloconv::wgrad {

namespace {

constexpr uintptr_t kAlignment = 16;  // of addresses, in bytes

// The map of rows `row`, row + row_maps and so on. It begins at whole 16 bytes, column_shift
// columns before the first pixel.
std::optional<CUtensorMap> make_map(const Arguments& a, int32_t row, int32_t& column_shift) {
  const auto first = reinterpret_cast<uintptr_t>(static_cast<const float*>(a.grad_output) +
                                                 row * int64_t{a.output_p});
  column_shift = static_cast<int32_t>(first % kAlignment / sizeof(float));
  const TensorView view{
      .address = reinterpret_cast<const void*>(first - first % kAlignment),
      .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      .element_bytes = sizeof(float),
      .rank = 4,
      .extents = {int64_t{a.q} + column_shift, ceil_div(a.p - row, a.row_maps),
                  int64_t{a.groups} * a.rows, a.images},
      .strides = {1, int64_t{a.output_p} * a.row_maps, a.output_k, a.output_n},
      .promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE,
  };
  const int32_t box[] = {a.box_columns, 1, a.tile_rows, 1};
  return make_tiled_map(
      view, box, a.box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

}  // namespace

std::optional<RowMaps> make_row_maps(Arguments& args) {
  RowMaps maps{};
  for (int32_t row = 0; row < args.row_maps; ++row) {
    const auto map = make_map(args, row, args.column_shift[row]);
    if (!map) return std::nullopt;
    maps.of_row[row] = *map;
  }
  return maps;
}

}  // namespace haloconv::wgrad
