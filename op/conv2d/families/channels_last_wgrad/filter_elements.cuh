// Which elements of the filter's gradient a thread's sums are, and how they are stored.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/channels_last_wgrad/arguments.h"

namespace haloconv::sm90::channels_last_wgrad {

struct FilterElement {
  int32_t k, c, r, s;
};

// A tile's first element.
struct TilePosition : FilterElement {
  __device__ __forceinline__ TilePosition(const Arguments& args, const Tile& tile, int32_t index) {
    const int32_t above_k = args.tiles_of_k.quotient(index);
    const int32_t above_c = args.tiles_of_c.quotient(above_k);
    const int32_t above_s = args.tiles_of_s.quotient(above_c);
    k = (index - above_k * args.tiles_of_k.divisor) * tile.rows();
    c = (above_k - above_c * args.tiles_of_c.divisor) * args.tile_c;
    s = first_tap(args.kinds_s, above_c - above_s * args.tiles_of_s.divisor, args.tile_s);
    r = first_tap(args.kinds_r, above_s, args.tile_r);
  }

  // Tiles of other columns have the same output channels.
  __device__ __forceinline__ bool is_first_of_columns() const { return c == 0 && r == 0 && s == 0; }

 private:
  static __device__ __forceinline__ int32_t first_tap(const FastDiv& kinds, int32_t tile,
                                                      int32_t tile_taps) {
    const int32_t turn = kinds.quotient(tile);
    return turn * tile_taps + tile - turn * kinds.divisor;
  }
};

// The first of the four sums that make `quad` of a math thread: two neighbouring channels of one
// output channel, and then of eight further.
__device__ __forceinline__ FilterElement first_of_quad(const Arguments& args, const Tile& tile,
                                                       const TilePosition& position, int32_t thread,
                                                       int32_t quad) {
  const int32_t eights_of_n = tile.n() / 8, eights_of_chunk = tile.width / 8;
  const int32_t warpgroup = thread / 128, lane = thread % 32;
  const int32_t column_warpgroup = warpgroup / tile.row_warpgroups;
  const int32_t instruction = quad / eights_of_n, eight = quad % eights_of_n;
  const int32_t chunk = eight / eights_of_chunk;
  const auto along = [&](int32_t ColumnAxis::* member) {
    return column_warpgroup * args.axes.warpgroup.*member +
           instruction * args.axes.instruction.*member + chunk * args.axes.chunk.*member;
  };
  FilterElement first;
  first.k = position.k + warpgroup % tile.row_warpgroups * 64 + thread % 128 / 32 * 16 + lane / 4;
  first.c = position.c + along(&ColumnAxis::channels) + eight % eights_of_chunk * 8 + lane % 4 * 2;
  first.s = position.s + along(&ColumnAxis::taps);
  first.r = position.r + along(&ColumnAxis::rows);
  return first;
}

// Stores a quad's sums, rounded.
template <class T>
__device__ __forceinline__ void store_quad(const Arguments& args, const FilterElement& first,
                                           const float4& sums) {
  if (first.c >= args.c || first.s >= args.s || first.r >= args.r) return;
  T* const to = static_cast<T*>(args.grad_filter) + args.filter_offset(first);
  if (first.k < args.k) *reinterpret_cast<uint32_t*>(to) = Element<T>::pair(sums.x, sums.y);
  if (first.k + 8 < args.k) {
    *reinterpret_cast<uint32_t*>(to + 8 * args.filter_k) = Element<T>::pair(sums.z, sums.w);
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
