// A rectangle of a tensor with channels innermost, of 16 bits, in shared memory: what a block that
// multiplies by the matrix instruction reads.
#pragma once

#include "conv2d/families/quad_groups/kernels.h"
#include "cuda/copy_async_or_zeros.cuh"

namespace haloconv::quad_groups {

inline constexpr int kWarpGroups = kProductGroups / kWarps;
// Of 16 bytes, those of two groups: so many are brought of a pixel. With one more, pixels that are
// read together are in different banks.
inline constexpr int kPixelUnits = kProductGroups / 2, kUnitPitch = kPixelUnits + 1;

// What a block computes: its first group, row and column.
struct Rectangle {
  int32_t image, group, row, column;
};

template <int kRows, int kColumns>
__device__ __forceinline__ Rectangle rectangle_of(const Arguments& args, int32_t block) {
  const int32_t all_rows = args.column_tiles.quotient(block);
  const int32_t group_tile = args.row_tiles.quotient(all_rows);
  const int32_t image = args.group_tiles.quotient(group_tile);
  return {.image = image,
          .group = (group_tile - image * args.group_tiles.divisor) * kProductGroups,
          .row = (all_rows - group_tile * args.row_tiles.divisor) * kRows,
          .column = (block - all_rows * args.column_tiles.divisor) * kColumns};
}

// (row, column, two groups) from a pixel of the source on, zeros beside it. Rows are kRowPitch
// units apart.
template <class T, int kRows, int kColumns, int kRowPitch = kColumns * kUnitPitch>
__device__ __forceinline__ void bring_window(const Arguments& args, const Tensors& tensors,
                                             const Rectangle& at, int32_t first_h, int32_t first_w,
                                             uint4* window) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t unit = thread % kPixelUnits, channel = at.group * kGroupChannels + unit * 8;
  const bool has_channels = channel < args.groups * kGroupChannels;
  const T* const source = static_cast<const T*>(tensors.source) + at.image * args.source.n +
                          first_h * args.source.h + first_w * args.source.w + channel;
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(window + unit));
#pragma unroll 4
  for (int32_t pixel = thread / kPixelUnits; pixel < kRows * kColumns;
       pixel += kBlockThreads / kPixelUnits) {
    const int32_t row = pixel / kColumns, column = pixel % kColumns;
    const bool inside = has_channels &&
                        static_cast<uint32_t>(first_h + row) < static_cast<uint32_t>(args.h) &&
                        static_cast<uint32_t>(first_w + column) < static_cast<uint32_t>(args.w);
    const int32_t units = kRowPitch == kColumns * kUnitPitch
                              ? pixel * kUnitPitch
                              : row * kRowPitch + column * kUnitPitch;
    copy_async_or_zeros<16>(to + units * 16, source + row * args.source.h + column * args.source.w,
                            inside);
  }
}

}  // namespace haloconv::quad_groups
