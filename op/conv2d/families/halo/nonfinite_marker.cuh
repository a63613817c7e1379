// Marks a math warp's sums of a tile if some of them are NaN.
#pragma once

#include "conv2d/families/halo/nonfinite_marks.h"
#include "conv2d/families/halo/results.cuh"

namespace haloconv::halo {

template <class T, int kPixels>
class NonfiniteMarker : Results<T, kPixels> {
  using Base = Results<T, kPixels>;
  using Base::args_;
  using Base::group_;
  using Base::lane_;
  using Base::staging_;
  using Base::warp_;

 public:
  __device__ __forceinline__ NonfiniteMarker(const Arguments& args, const SharedMemory& shared)
      : Base(args, shared) {}

  // Of the 8 channels that the warp has staged.
  __device__ __forceinline__ void run(uint32_t tile) const {
    __syncwarp();
    if (!has_nan() || lane_ != 0) return;
    const auto warp = static_cast<uint32_t>(group_ * 4 + warp_);
    const NonfiniteMark mark = mark_of(uint64_t{tile} * kMathWarps + warp);
    atomicOr(args_.marks + mark.word, mark.bit);
    atomicOr(args_.has_marks, 1u);
  }

 private:
  // The zeros of a fold are the same in all channels: what they make NaN is so in the first one.
  __device__ __forceinline__ bool has_nan() const {
    using Pixels = typename Base::template LanePixels<4>;
    bool found = false;
#pragma unroll
    for (int i = 0; i < Pixels::kTotal; ++i) {
      float values[4];
      load_shared(staging_ + Pixels::staged((i * 32 + lane_) * 4), values);
#pragma unroll
      for (const float value : values) found = found || isnan(value);
    }
    return __any_sync(~0u, found);
  }
};

}  // namespace haloconv::halo
