// What a thread adds to its sums, the same for all pixels of a row (an output channel): the bias
// and, in the fused kernels, scale and shift.
#pragma once

#include "conv2d/sm90/element.cuh"
#include "conv2d/sm90/gather/tile_order.cuh"

namespace haloconv::sm90 {

// Those of a tile, for the thread's row of each half of its warp's 16. They are loaded while the
// tile before is written: a tile that began with them would begin by waiting.
template <class T, bool kFused>
class RowTerms {
 public:
  __device__ __forceinline__ RowTerms(const Arguments& args, uint32_t index, int32_t group,
                                      int32_t thread, int32_t split) {
    const TilePosition tile(args, min(index, args.tiles - 1));
    const int32_t first = tile.first_row(args, group) + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t channel = args.folded.at(first + half * 8).channel;
      const int64_t at = int64_t{tile.group} * args.rows + channel;
      const auto load = [&](const void* values, bool wanted) {
        return Element<T>::load(static_cast<const T*>(values) + at,
                                values != nullptr && channel < args.rows && wanted);
      };
      bias_[half] = load(args.bias, split == 0);
      if constexpr (kFused) {
        scale_[half] = load(args.fusion.scale, true);
        shift_[half] = load(args.fusion.shift, true);
      }
    }
  }

  // Before the first sums: (sum + bias) * scale + shift takes one instruction.
  __device__ __forceinline__ void combine(const Arguments& args) {
    if constexpr (kFused) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (args.fusion.scale == nullptr) scale_[half] = 1;
        bias_[half] = bias_[half] * scale_[half] + shift_[half];
      }
    }
  }

  __device__ __forceinline__ float apply(float sum, int half) const {
    if constexpr (kFused) {
      return sum * scale_[half] + bias_[half];
    } else {
      return sum + bias_[half];
    }
  }

 private:
  float bias_[2];  // 0 in all but one split; combined: bias * scale + shift
  float scale_[kFused ? 2 : 1], shift_[kFused ? 2 : 1];
};

}  // namespace haloconv::sm90
