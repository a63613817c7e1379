// The filters of a block's channels in shared memory.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/bands.h"

namespace haloconv::depthwise {

// (channel, r, s)
struct BandFilters {
  uint32_t at;
  int32_t taps_w, weights;  // of a row, of a channel

  __device__ __forceinline__ uint32_t bits(int32_t channel, int32_t r, int32_t s) const {
    uint16_t bits;
    load_shared_bits(at + 2 * (channel * weights + r * taps_w + s), bits);
    return bits;
  }
};

// Brings a block's filters; says whether this thread's are finite.
template <class T, class Arguments>
__device__ __forceinline__ bool bring_band_filters(const Arguments& args, int32_t first_channel,
                                                   uint32_t to) {
  const Bands& d = args.shape;
  const int32_t weights = d.h.taps * d.w.taps, taps_w = d.w.taps;
  const T* const from = args.filter + first_channel * args.filter_group + d.filter_first;
  const int32_t exist = d.channels.divisor - first_channel;
  bool finite = true;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kBandChannels * weights;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t channel = i / weights, tap = i - channel * weights;
    const int32_t r = tap / taps_w, s = tap - r * taps_w;
    T weight = static_cast<T>(0.0f);
    if (channel < exist) {
      weight = from[channel * args.filter_group + r * d.h.filter_step + s * d.w.filter_step];
    }
    finite = finite && isfinite(static_cast<float>(weight));
    uint16_t bits;
    memcpy(&bits, &weight, sizeof(bits));
    store_shared_bits(to + 2 * i, bits);
  }
  return finite;
}

}  // namespace haloconv::depthwise
