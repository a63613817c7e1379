// What a thread adds to the sums of a row (an output channel), the same for all of its pixels: the
// bias and, in the kernels with a fusion, scale and shift.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/tile_order.cuh"

namespace haloconv::halo {

// The terms of one tile, for the thread's row in each half of its warp's 16. They are loaded while
// the tile before is written, so that no tile begins with a wait.
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
      const auto load = [&](const void* values, bool wanted, Loaded& loaded) {
        Element<T>::template load<false>(static_cast<const T*>(values) + at, loaded,
                                         values != nullptr && channel < args.rows && wanted);
      };
      load(args.bias, split == 0, loaded_bias_[half]);
      if constexpr (kFused) {
        load(args.fusion.scale, true, loaded_scale_[half]);
        load(args.fusion.shift, true, loaded_shift_[half]);
      }
    }
  }

  // Waits for the loads and folds (sum + bias) * scale + shift into one multiply-add.
  __device__ __forceinline__ void combine(const Arguments& args) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bias_[half] = Element<T>::value_of(loaded_bias_[half]);
      if constexpr (kFused) {
        scale_[half] = args.fusion.scale == nullptr ? 1 : Element<T>::value_of(loaded_scale_[half]);
        bias_[half] = bias_[half] * scale_[half] + Element<T>::value_of(loaded_shift_[half]);
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
  using Loaded = typename Element<T>::template Pixels<1>;
  Loaded loaded_bias_[2];  // 0 in all but one split
  Loaded loaded_scale_[kFused ? 2 : 1], loaded_shift_[kFused ? 2 : 1];
  float bias_[2], scale_[kFused ? 2 : 1];  // combined: bias * scale + shift
};

}  // namespace haloconv::halo
