#include "conv2d/families/halo/copied_launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "conv2d/families/halo/copied_instances.h"
#include "conv2d/geometry/integers.h"
#include "cuda/tma.h"

namespace haloconv::halo {

namespace {

template <class T>
constexpr CUtensorMapDataType map_type() {
  if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if constexpr (std::is_same_v<T, __half>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

constexpr int32_t kPairBytes = 4;  // of pixels

// Of the channels whose planes begin where that of channel `place` does. The map begins at a
// sector, which may lie before the first of them.
template <class T>
CUtensorMap make_line_map(const Arguments& args, const LinePlaces& places, int32_t place,
                          int32_t& before) {
  const T* const first = static_cast<const T*>(args.destination) + place * args.destination_c;
  before = static_cast<int32_t>(reinterpret_cast<uintptr_t>(first) % kSectorBytes / sizeof(T));
  const int64_t plane = (args.h.outputs - 1) * int64_t{args.destination_h} + args.w.outputs;
  const int64_t channel_step = args.destination_c << places.shift;
  const TensorView view{
      .address = first - before,
      .type = CU_TENSOR_MAP_DATA_TYPE_INT32,  // a pair of pixels
      .element_bytes = 2 * sizeof(T),
      .rank = 4,
      .extents = {kLinePixels / 2, ceil_div(plane + before, int64_t{kSectorPixels}),
                  args.rows >> places.shift, args.images},
      .strides = {1, kSectorPixels / 2, channel_step / 2, args.destination_n / 2}};
  const int32_t box[] = {kStagedLineBytes / kPairBytes, 1, places.channels_of_box(), 1};
  const auto map = make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (!map) throw std::runtime_error("haloconv: no tensor map describes the result");
  return *map;
}

// Of pieces of rows of so many bytes: copied_rows.cuh.
CUtensorMapSwizzle swizzle_of(size_t bytes) {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

template <class T>
CUtensorMap make_rows_map(const Tile& tile, const Arguments& args) {
  const TensorView view{.address = args.destination,
                        .type = map_type<T>(),
                        .element_bytes = sizeof(T),
                        .rank = 4,
                        .extents = {args.w.outputs, args.rows, args.h.outputs, args.images},
                        .strides = {1, args.destination_c, args.destination_h, args.destination_n}};
  const int32_t box[] = {tile.columns, kCopiedChannels, tile.rows, 1};
  const auto map = make_tiled_map(view, box, swizzle_of(tile.columns * sizeof(T)));
  if (!map) throw std::runtime_error("haloconv: no tensor map describes the result");
  return *map;
}

// As make_line_map(), of what a flat tile writes.
template <class T>
CUtensorMap make_flat_map(const Arguments& args, const LinePlaces& places, int32_t place,
                          int32_t& before) {
  using Shape = FlatShape<sizeof(T)>;
  constexpr int kWordPixels = kPairBytes / sizeof(T);
  const T* const first = static_cast<const T*>(args.destination) + place * args.destination_c;
  before = static_cast<int32_t>(reinterpret_cast<uintptr_t>(first) % kSectorBytes / sizeof(T));
  const int64_t positions = args.w.outputs - args.destination_h;  // of the rows before the last
  const int64_t plane = positions / args.source_h * args.destination_h + args.destination_h;
  const int64_t channel_step = args.destination_c << places.shift;
  const TensorView view{
      .address = first - before,
      .type = CU_TENSOR_MAP_DATA_TYPE_INT32,
      .element_bytes = kPairBytes,
      .rank = 4,
      .extents = {Shape::kColumns / kWordPixels, ceil_div(plane + before, int64_t{Shape::kSector}),
                  args.rows >> places.shift, args.images},
      .strides = {1, kSectorBytes / kPairBytes, channel_step / kWordPixels,
                  args.destination_n / kWordPixels}};
  const int32_t box[] = {Shape::kStagedBytes / kPairBytes, 1, places.channels_of_box(), 1};
  const auto map = make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (!map) throw std::runtime_error("haloconv: no tensor map describes the result");
  return *map;
}

template <class T>
FlatArguments make_flat(const Arguments& args) {
  FlatArguments flat{};
  flat.places = {FlatShape<sizeof(T)>::place_shift(args.destination_c)};
  flat.rows = FlatShape<sizeof(T)>::row_order(flat.places);
  flat.row_outputs = args.destination_h;
  flat.positions_div = FastDiv(args.source_h);
  for (int32_t place = 0; place < flat.places.count(); ++place) {
    flat.maps[place] = make_flat_map<T>(args, flat.places, place, flat.before[place]);
  }
  return flat;
}

template <class T>
CopiedArguments make_copied(const Arguments& args) {
  CopiedArguments copied{};
  copied.places = {place_shift(args.destination_c)};
  for (int32_t place = 0; place < copied.places.count(); ++place) {
    copied.maps[place] = make_line_map<T>(args, copied.places, place, copied.before[place]);
  }
  return copied;
}

}  // namespace

Tile written_by_warps(const Tile& tile) {
  Tile written = tile;
  written.copied = false;
  if (!copies_lines(tile)) return written;
  written.instructions = 2;
  written.width = 104;
  written.columns = 208;
  return written;
}

template <class T>
void launch_copied(const Tile& tile, const Arguments& args, unsigned blocks, cudaStream_t stream) {
  if (is_flat(tile)) return launch_flat_lines<T>(args, make_flat<T>(args), blocks, stream);
  if constexpr (sizeof(T) == 2) {
    if (copies_lines(tile)) {
      return launch_copied_lines<T>(args, make_copied<T>(args), std::min(blocks, rows_of(args)),
                                    stream);
    }
  }
  const CUtensorMap map = make_rows_map<T>(tile, args);
  if (tile.width == 64) return launch_copied_rows<T, 64>(args, map, blocks, stream);
  launch_copied_rows<T, 56>(args, map, blocks, stream);
}

template void launch_copied<float>(const Tile&, const Arguments&, unsigned, cudaStream_t);
template void launch_copied<__half>(const Tile&, const Arguments&, unsigned, cudaStream_t);
template void launch_copied<__nv_bfloat16>(const Tile&, const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::halo
