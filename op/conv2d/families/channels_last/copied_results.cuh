// Results of an alternating tile by the copy engine. A warpgroup puts a block of 64 pixels into
// shared memory of its own, as boxes of 64 channels, and one of its threads has them copied while
// the group goes on. Written from the registers, results take as long as the products of four
// steps, because the words that a quad exchanges wait behind the operands of the other group's
// products.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/element.cuh"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/result_boxes.h"
#include "cuda/named_barrier.cuh"
#include "cuda/store_matrices.cuh"

namespace haloconv::sm90::channels_last {

enum class ResultBarrier { kOfFirst = 3, kOfSecond };

// A warpgroup waits for its own warps.
__device__ __forceinline__ void sync_group(int32_t group) {
  using enum ResultBarrier;
  group == 0 ? named_barrier_sync<kOfFirst, 128>() : named_barrier_sync<kOfSecond, 128>();
}

// A warpgroup's shared memory for results: two blocks, of which one is filled while the other is
// copied, or one, if a tile has no more.
template <class T, Tile kTile>
class CopiedResults {
 public:
  __device__ __forceinline__ CopiedResults(uint32_t start, int32_t group)
      : start_(start + group * (kStaged * kBlockBytes)), group_(group) {}

  // Of a tile that begins at these pixel and channel of the result.
  __device__ __forceinline__ void write(const CUtensorMap* result, int32_t first_pixel,
                                        int32_t first_channel, int32_t channels, int32_t warp,
                                        int32_t lane, const Sums<kTile>& sums) {
    const bool copies = warp == 0 && lane == 0;
#pragma unroll
    for (int block = 0; block < kRowBlocks<kTile>; ++block) {
      if (copies) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<kStaged - 1>());
      sync_group(group_);
      const uint32_t to = start_ + next_ * kBlockBytes;
      fill(to + warp * (kWarpPixels * kBoxRowBytes), lane, sums[block]);
      // What each thread wrote is seen by the copies that one issues.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      sync_group(group_);
      if (copies) {
#pragma unroll
        for (int box = 0; box < boxes_of(kTile); ++box) {
          const int32_t channel = first_channel + box * kBoxChannels;
          if (channel >= channels) break;
          store_box(to + box * kBoxBytes, result, channel, first_pixel + block * 64, 0, 0);
        }
        cuda::ptx::cp_async_bulk_commit_group();
      }
      next_ ^= kStaged - 1;
    }
  }

  // Before the block ends, whose shared memory the copies read.
  __device__ __forceinline__ void finish() const {
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
  }

 private:
  static constexpr uint32_t kStaged = staged_blocks(kTile);  // 1 or 2
  static_assert(kTile.channels % kBoxChannels == 0);
  static constexpr uint32_t kBoxBytes = 64 * kBoxRowBytes;
  static constexpr uint32_t kBlockBytes = boxes_of(kTile) * kBoxBytes;

  // A warp's 16 pixels of all boxes. Each matrix is eight pixels of eight channels; the swizzle
  // puts its rows into different banks.
  static __device__ __forceinline__ void fill(uint32_t rows, int32_t lane,
                                              const float (&sums)[kTile.channels / 2]) {
    const uint32_t row = static_cast<uint32_t>(lane) % 8, matrix = static_cast<uint32_t>(lane) / 8;
    const uint32_t first = rows + row * kBoxRowBytes + (matrix ^ row) * 16;
#pragma unroll
    for (int channel = 0; channel < kTile.channels; channel += 32) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* const pair = &sums[channel / 2 + j * 4 + half * 2];
          words[j] = Element<T>::pair(pair[0], pair[1]);
        }
        const uint32_t box = channel / kBoxChannels * kBoxBytes + half * (8 * kBoxRowBytes);
        store_matrices((first ^ channel % kBoxChannels * 2) + box, words);
      }
    }
  }

  uint32_t start_;
  int32_t group_;
  uint32_t next_ = 0;
};

}  // namespace haloconv::sm90::channels_last
