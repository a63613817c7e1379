#include "conv2d/families/halo/copied_launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <type_traits>

#include "conv2d/families/halo/copied_instances.h"
#include "conv2d/geometry/integers.h"
#include "cuda/tma.h"

namespace haloconv::halo {

namespace {

// Tiles of a block that are computed between a band's being brought and the first of its windows'
// being loaded, and those whose windows are loaded before they are computed.
constexpr int32_t kTilesAhead = 4;

template <class T>
constexpr CUtensorMapDataType map_type() {
  if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if constexpr (std::is_same_v<T, __half>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Of the channels whose planes begin where that of channel `place` does. The map begins at a
// sector, which may lie before the first of them.
template <class T>
CUtensorMap make_map(const Tile& tile, const Arguments& args, const LinePlaces& places,
                     int32_t place, int32_t& before) {
  const T* const first = static_cast<const T*>(args.destination) + place * args.destination_c;
  before = static_cast<int32_t>(reinterpret_cast<uintptr_t>(first) % kSectorBytes / sizeof(T));
  const int64_t plane = (args.h.outputs - 1) * int64_t{args.destination_h} + args.w.outputs;
  const TensorView view{.address = first - before,
                        .type = map_type<T>(),
                        .element_bytes = sizeof(T),
                        .rank = 3,
                        .extents = {plane + before, args.rows >> places.shift, args.images},
                        .strides = {1, args.destination_c << places.shift, args.destination_n}};
  const int32_t inside =
      tile.instructions * tile.width - kSectorBytes / static_cast<int32_t>(sizeof(T));
  const int32_t box[] = {inside, places.channels_of_box(), 1};
  const auto map = make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (!map) throw std::runtime_error("haloconv: no tensor map describes the result");
  return *map;
}

template <class T>
CUtensorMap make_rows_map(const Tile& tile, const Arguments& args) {
  const TensorView view{.address = args.destination,
                        .type = map_type<T>(),
                        .element_bytes = sizeof(T),
                        .rank = 4,
                        .extents = {args.w.outputs, args.rows, args.h.outputs, args.images},
                        .strides = {1, args.destination_c, args.destination_h, args.destination_n}};
  const int32_t box[] = {tile.width, kCopiedChannels, tile.instructions, 1};
  const bool swizzles = tile.width * sizeof(T) == 128;
  const auto map =
      make_tiled_map(view, box, swizzles ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE);
  if (!map) throw std::runtime_error("haloconv: no tensor map describes the result");
  return *map;
}

template <class T>
CopiedArguments make_copied(const Tile& tile, const Arguments& args, unsigned blocks) {
  CopiedArguments copied{};
  copied.places = {place_shift(args.destination_c, sizeof(T))};
  for (int32_t place = 0; place < copied.places.count(); ++place) {
    copied.maps[place] = make_map<T>(tile, args, copied.places, place, copied.before[place]);
  }
  copied.bands = {.lines = tile.bands.lines,
                  .ahead = ceil_div_32(kTilesAhead * static_cast<int32_t>(blocks), args.w.tiles),
                  .results_leave_first = tile.bands.results_leave_first};
  return copied;
}

}  // namespace

Tile written_by_warps(const Tile& tile) {
  Tile written = tile;
  written.copied = false;
  if (!copies_lines(tile)) return written;
  written.bands = {};
  written.instructions = 2;
  written.width = 104;
  written.columns = 208;
  return written;
}

template <class T>
void launch_copied(const Tile& tile, const Arguments& args, unsigned blocks, cudaStream_t stream) {
  if (!copies_lines(tile)) {
    const CUtensorMap map = make_rows_map<T>(tile, args);
    if constexpr (sizeof(T) == 2) {
      if (tile.width == 64) return launch_copied_rows<T, 4, 64>(args, map, blocks, stream);
    }
    return launch_copied_rows<T, 4, 56>(args, map, blocks, stream);
  }
  const CopiedArguments copied = make_copied<T>(tile, args, blocks);
  if constexpr (std::is_same_v<T, float>) {
    launch_copied_instance<T, 2, 104, 2>(args, copied, blocks, stream);
  } else {
    launch_copied_instance<T, 4, 64, 1>(args, copied, blocks, stream);
  }
}

template void launch_copied<float>(const Tile&, const Arguments&, unsigned, cudaStream_t);
template void launch_copied<__half>(const Tile&, const Arguments&, unsigned, cudaStream_t);
template void launch_copied<__nv_bfloat16>(const Tile&, const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::halo
