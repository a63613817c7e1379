// Hands the results of a math warp's 16 channels to the copy engine, where an instruction's pixels
// are a piece of one row and the instructions' are pieces of neighbouring rows. One box, (pixels of
// a row, channels, rows): with channels between pixels and rows, the accumulators' layout meets no
// bank of shared memory twice, of pieces of 128 bytes by the engine's swizzle. The engine leaves
// out what lies outside the tensor.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/copied_shape.h"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "cuda/tma.cuh"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth>
class CopiedRows : Results<T, kInstructions * kWidth> {
  static constexpr int kChannelBytes = kWidth * sizeof(T);
  static constexpr int kRowBytes = kCopiedChannels * kChannelBytes;
  static constexpr int kWarpBytes = kInstructions * kRowBytes;
  static constexpr bool kSwizzles = kChannelBytes == 128;
  static_assert(kWarpBytes % (kSwizzles ? kCopiedAlignment : kBoxAlignment) == 0);
  // Eight channels' four words, or, of pairs of float32, four channels' eight.
  static_assert(kSwizzles ||
                kChannelBytes / 4 % (sizeof(T) == 4 ? 16 : 8) == (sizeof(T) == 4 ? 8 : 4));

  using Base = Results<T, kInstructions * kWidth>;
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
  __device__ __forceinline__ void run(const float (&sums)[kInstructions][kWidth / 2],
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
  __device__ __forceinline__ void stage(const float (&sums)[kInstructions][kWidth / 2],
                                        const RowTerms<T, false>& terms) const {
    const uint32_t staged = box_ + lane_ / 4 * kChannelBytes + lane_ % 4 * 2 * sizeof(T);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kInstructions; ++i) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j) {
          const float pair[2] = {terms.apply(sums[i][j * 4 + half * 2], half),
                                 terms.apply(sums[i][j * 4 + half * 2 + 1], half)};
          // Of a channel's 16 bytes, those whose number the swizzle makes j.
          const int32_t unit = kSwizzles ? j ^ lane_ / 4 : j;
          const uint32_t at = staged + half * 8 * kChannelBytes + i * kRowBytes +
                              unit * 8 * static_cast<int>(sizeof(T));
          if constexpr (sizeof(T) == 4) {
            store_shared(at, pair);
          } else {
            store_shared_bits(at, Element<T>::pair(pair[0], pair[1]));
          }
        }
      }
    }
  }

  const CUtensorMap& map_;
  const uint32_t box_;  // of this warp
};

}  // namespace haloconv::halo
