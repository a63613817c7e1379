// The bias's gradient where tiles have several taps: the warps beside the producer add. Products
// with ones would wait in each step for those of the warps that multiply.
#pragma once

#include <cuda_fp16.h>

#include <type_traits>

#include "conv2d/families/channels_last_wgrad/bias_eights.h"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"
#include "cuda/named_barrier.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// The two values of a word.
template <class T>
__device__ __forceinline__ float2 values_of(uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000)};
  }
}

// One warp's sums, over every third piece.
template <class T, class Args, Tile kTile>
class BiasAdditions {
 public:
  __device__ __forceinline__ BiasAdditions(const Args& args, const Shared<kTile>& shared,
                                           int32_t warp)
      : args_(args),
        shared_(shared),
        warp_(warp),
        lane_(static_cast<int32_t>(threadIdx.x) % 32),
        pieces_(bias_pieces<Args::kOutputRows>(args.k_steps)) {}

  __device__ __forceinline__ void add_stage(int32_t stage) {
    const unsigned char* const boxes = shared_.ring + stage * shared_.stage_bytes;
#pragma unroll 1
    for (int32_t piece = warp_; piece < pieces_; piece += kBiasWarps * kAtOnce) {
#pragma unroll
      for (int box = 0; box < kTile.row_warpgroups; ++box) {
        uint4 eights[kAtOnce][kHalves];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          load(boxes + box * args_.grad_output_bytes, piece + kBiasWarps * i, eights[i]);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
          for (int half = 0; half < kHalves; ++half) add(eights[i][half], sums_[box][half]);
        }
      }
    }
  }

  // The warps add their sums to one another's in turn.
  __device__ __forceinline__ void store() const {
#pragma unroll 1
    for (int32_t turn = 0; turn < kBiasWarps; ++turn) {
      if (turn == warp_) {
#pragma unroll
        for (int box = 0; box < kTile.row_warpgroups; ++box) {
#pragma unroll
          for (int half = 0; half < kHalves; ++half) store(box, half);
        }
      }
      named_barrier_sync<kBiasBarrier, 32 * kBiasWarps>();
    }
  }

 private:
  static constexpr int kHalves = kPieceHalves<Args::kOutputRows>;
  // Loads that a lane has on their way before it adds: three or four.
  static constexpr int kAtOnce = Args::kOutputRows ? 2 : 3;
  // A lane's values of an eight belong to as many channels, or to one.
  static constexpr int kSums = Args::kOutputRows ? 2 : 8;

  __device__ __forceinline__ void load(const unsigned char* box, int32_t piece,
                                       uint4 (&eights)[kHalves]) const {
    const unsigned char* const at = box + bias_eight<Args::kOutputRows>(lane_, piece);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      eights[half] =
          piece < pieces_ ? *reinterpret_cast<const uint4*>(at + half * kHalfBytes) : uint4{};
    }
  }

  static __device__ __forceinline__ void add(const uint4& eight, float (&sums)[kSums]) {
    const uint32_t words[] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 values = values_of<T>(words[i]);
      sums[2 * i % kSums] += values.x;
      sums[2 * i % kSums + 1] += values.y;
    }
  }

  __device__ __forceinline__ void store(int box, int half) const {
    const float (&sums)[kSums] = sums_[box][half];
    float* const to = shared_.bias + box * 64;
    if constexpr (Args::kOutputRows) {
      add_to(to + half * 32 + lane_, sums[0] + sums[1]);
    } else {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        float sum = sums[i];
        sum += __shfl_xor_sync(~0u, sum, 8);
        sum += __shfl_xor_sync(~0u, sum, 16);
        if (lane_ < 8) add_to(to + lane_ * 8 + i, sum);
      }
    }
  }

  __device__ __forceinline__ void add_to(float* at, float sum) const {
    *at = warp_ == 0 ? sum : *at + sum;
  }

  const Args& args_;
  const Shared<kTile>& shared_;
  const int32_t warp_, lane_, pieces_;
  float sums_[kTile.row_warpgroups][kHalves][kSums] = {};
};

}  // namespace haloconv::sm90::channels_last_wgrad
