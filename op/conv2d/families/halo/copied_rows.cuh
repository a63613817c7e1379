// Hands the results of a math warp's 16 channels to the copy engine, where the tile has pieces of
// several rows: one of each instruction, or patches. One box, (pixels of a row, channels, rows):
// with channels between pixels and rows, and by the engine's swizzle where a piece of a row has 32,
// 64 or 128 bytes, the accumulators' layout meets no bank of shared memory twice (in patches of
// float32 it does). The engine leaves out what lies outside the tensor.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/copied_shape.h"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "cuda/tma.cuh"

namespace haloconv::halo {

inline constexpr int kRowsInstructions = 4;  // of a warpgroup

template <class T, int kWidth>
class CopiedRows : Results<T, kRowsInstructions * kWidth> {
  static constexpr int kChannelBytes = kWidth * sizeof(T);
  static constexpr int kRowBytes = kCopiedChannels * kChannelBytes;
  static constexpr int kWarpBytes = kRowsInstructions * kRowBytes;
  static constexpr bool kSwizzles = kChannelBytes == 128;
  // Whether an instruction's pixels may be a piece of a row: eight channels' four words, or, of
  // pairs of float32, four channels' eight, are then in different banks.
  static constexpr bool kHasRows =
      kSwizzles || kChannelBytes / 4 % (sizeof(T) == 4 ? 16 : 8) == (sizeof(T) == 4 ? 8 : 4);
  static_assert(kWarpBytes % kCopiedAlignment == 0);
  static constexpr int kUnitBytes = 16;  // what the swizzle moves as a whole

  using Base = Results<T, kRowsInstructions * kWidth>;
  using Base::args_;
  using Base::first_output;
  using Base::first_row;
  using Base::group_;
  using Base::lane_;
  using Base::warp_;

 public:
  __device__ __forceinline__ CopiedRows(const Arguments& args, const CUtensorMap& map,
                                        const SharedMemory& shared)
      : Base(args, shared),
        map_(map),
        box_(shared_address(shared.staging()) + (group_ * 4 + warp_) * kWarpBytes) {}

  // Calls after_sums() when it needs neither sums nor terms any longer.
  template <class Body>
  __device__ __forceinline__ void run(const float (&sums)[kRowsInstructions][kWidth / 2],
                                      const RowTerms<T, false>& terms, const TilePosition& tile,
                                      Body after_sums) const {
    wait_until_read();
    stage(sums, terms);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (lane_ == 0) {
      const typename Base::Output first = first_output(tile);
      store_box(box_, &map_, first.q, first_row(tile, 0).channel, first.p, tile.image + first.n);
      cuda::ptx::cp_async_bulk_commit_group();
    }
    after_sums();
  }

  // Until the engine has read this warp's box.
  __device__ __forceinline__ void wait_until_read() const {
    if (lane_ == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    __syncwarp();
  }

 private:
  __device__ __forceinline__ void stage(const float (&sums)[kRowsInstructions][kWidth / 2],
                                        const RowTerms<T, false>& terms) const {
    if (!kHasRows || args_.patches) {
      stage_patches(sums, terms);
    } else {
      stage_rows(sums, terms);
    }
  }

  __device__ __forceinline__ void stage_rows(const float (&sums)[kRowsInstructions][kWidth / 2],
                                             const RowTerms<T, false>& terms) const {
    const uint32_t staged = box_ + lane_ / 4 * kChannelBytes + lane_ % 4 * 2 * sizeof(T);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kRowsInstructions; ++i) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j) {
          // Of a channel's 16 bytes, those whose number the swizzle makes j.
          const int32_t unit = kSwizzles ? j ^ lane_ / 4 : j;
          store_pair(staged + half * 8 * kChannelBytes + i * kRowBytes +
                         unit * 8 * static_cast<int>(sizeof(T)),
                     sums[i], j, half, terms);
        }
      }
    }
  }

  // An instruction's pixels are a patch of 8 columns.
  __device__ __forceinline__ void stage_patches(const float (&sums)[kRowsInstructions][kWidth / 2],
                                                const RowTerms<T, false>& terms) const {
    const int32_t across = args_.group_columns / 8;  // patches: 1, 2 or 4
    const int32_t channel_bytes = args_.group_columns * static_cast<int32_t>(sizeof(T));
    const int32_t units = channel_bytes / kUnitBytes;
    const int32_t swizzle = lane_ / 4 * units / 8 & (units - 1);
    const int32_t in_patch = lane_ % 4 * 2 * static_cast<int32_t>(sizeof(T));
    const int32_t row_bytes = kCopiedChannels * channel_bytes;
#pragma unroll
    for (int i = 0; i < kRowsInstructions; ++i) {
      const int32_t column = i & (across - 1);
      const int32_t patch_row = (i - column) >> (across / 2);
      const int32_t in_channel = column * 8 * static_cast<int32_t>(sizeof(T)) + in_patch;
      uint32_t at = box_ + patch_row * (kWidth / 8) * row_bytes + lane_ / 4 * channel_bytes +
                    (in_channel ^ swizzle * kUnitBytes);
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j, at += row_bytes) {
        store_pair(at, sums[i], j, 0, terms);
        store_pair(at + 8 * channel_bytes, sums[i], j, 1, terms);
      }
    }
  }

  // A lane's pair of an instruction's pixels, the j-th of them, of one of its two channels.
  static __device__ __forceinline__ void store_pair(uint32_t at, const float (&sums)[kWidth / 2],
                                                    int j, int half,
                                                    const RowTerms<T, false>& terms) {
    const float pair[2] = {terms.apply(sums[j * 4 + half * 2], half),
                           terms.apply(sums[j * 4 + half * 2 + 1], half)};
    if constexpr (sizeof(T) == 4) {
      store_shared(at, pair);
    } else {
      store_shared_bits(at, Element<T>::pair(pair[0], pair[1]));
    }
  }

  const CUtensorMap& map_;
  const uint32_t box_;  // of this warp
};

}  // namespace haloconv::halo
