// Where a math warp's results of a tile belong: in the output, and before that in shared memory. A
// warp stages 8 of its 16 channels at a time, or all 16 if they are already rounded to 16 bits.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/halo/shared_memory.cuh"
#include "conv2d/families/halo/tile_order.cuh"

namespace haloconv::halo {

// Constructed anew for each tile, from numbers that the compiler cannot keep live across the
// mainloop: there they would cost registers. T is the output's element type, kPixels the number of
// pixels of a warpgroup's tile.
template <class T, int kPixels>
class Results {
 protected:
  static constexpr int kPitch = staging_pitch(kPixels);  // rows of the tile follow each other

  __device__ __forceinline__ Results(const Arguments& args, const SharedMemory& shared)
      : args_(args) {
    const auto thread = static_cast<int32_t>(this_thread());
    const int32_t warp = __shfl_sync(~0u, thread / 32, 0);  // the compiler sees it is uniform
    group_ = warp / 4;
    warp_ = warp % 4;
    lane_ = thread % 32;
    staging_ = shared_address(shared.staging()) + warp * 8 * kPitch * 4;
  }

  // Some of a lane's pixels, as many as there are registers for: vector i of the lane begins with
  // pixel (32 * i + lane) * kVector of the warpgroup's tile, counted along its rows.
  template <int kVector, int kMost = 4>
  struct LanePixels {
    static constexpr int kTotal = (kPixels + 32 * kVector - 1) / (32 * kVector);
    static constexpr int kCount = kTotal < kMost ? kTotal : kMost;
    int32_t offset[kCount];  // bytes from first_of(); negative: not in the output

    // Bytes from the channel's first in shared memory; where a lane has no pixel, another's.
    static __device__ __forceinline__ uint32_t staged(int32_t pixel) {
      constexpr bool kAllExist = kPixels % (32 * kVector * kCount) == 0;
      return (kAllExist ? pixel : min(pixel, kPixels - kVector)) * 4;
    }
  };

  // The first of the 8 rows that this warp stages; the others are its neighbours in the channel.
  __device__ __forceinline__ FoldedRows::Row first_row(const TilePosition& tile, int half) const {
    return args_.folded.at(tile.first_row(args_, group_) + warp_ * 16 + half * 8);
  }

  struct Output {
    int32_t n, p, q;  // n counted from the tile's image
  };

  // This warpgroup's first of the tile.
  __device__ __forceinline__ Output first_output(const TilePosition& tile) const {
    return {first_of_group(Share::kImages, args_.group_images),
            tile.h + first_of_group(Share::kRows, args_.group_rows),
            tile.w + first_of_group(Share::kColumns, args_.group_columns)};
  }

  // Where that output lies, for a row's channel, in a tensor with the destination's strides.
  template <class Pointer>
  __device__ __forceinline__ Pointer first_of(Pointer tensor, const TilePosition& tile,
                                              FoldedRows::Row row) const {
    const Output first = first_output(tile);
    return tensor + (tile.image + first.n) * args_.destination_n + row.fold * args_.folded.step +
           (int64_t{tile.group} * args_.rows + row.channel) * args_.destination_c +
           first.p * int64_t{args_.destination_h} + first.q * int64_t{args_.destination_w};
  }

  __device__ __forceinline__ bool has(const TilePosition& tile, FoldedRows::Row row,
                                      const Output& output) const {
    return tile.image + output.n < args_.images && output.p < args_.h.outputs &&
           output.q < args_.w.outputs && args_.folded.has(row, output.p, output.q);
  }

  // Where this warpgroup's share of an axis begins in the tile.
  __device__ __forceinline__ int32_t first_of_group(Share axis, int32_t size) const {
    return args_.share == axis ? group_ * size : 0;
  }

  template <int kVector, int kMost>
  __device__ __forceinline__ void locate(const TilePosition& tile, int half, int first_vector,
                                         LanePixels<kVector, kMost>& pixels) const {
    const FoldedRows::Row row = first_row(tile, half);
    const Output first = first_output(tile);
#pragma unroll
    for (int i = 0; i < pixels.kCount; ++i) {
      const int32_t pixel = ((first_vector + i) * 32 + lane_) * kVector;
      const int32_t line = args_.columns_div.quotient(pixel);
      const int32_t n = args_.rows_div.quotient(line);
      const int32_t p = line - n * args_.group_rows;
      const int32_t q = pixel - line * args_.group_columns;
      const bool inside =
          pixel < kPixels && has(tile, row, {first.n + n, first.p + p, first.q + q});
      const int32_t offset = static_cast<int32_t>(n * args_.destination_n) +
                             p * args_.destination_h + q * args_.destination_w;
      pixels.offset[i] = inside ? offset * static_cast<int32_t>(sizeof(T)) : -1;
    }
  }

  const Arguments& args_;
  int32_t group_, warp_, lane_;
  uint32_t staging_;  // of this warp: 8 channels of kPitch floats
};

}  // namespace haloconv::halo
