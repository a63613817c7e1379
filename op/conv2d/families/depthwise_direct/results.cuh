// What becomes of a thread's sums.
#pragma once

#include "conv2d/device/fuse.cuh"
#include "conv2d/families/depthwise_direct/kernels.h"

namespace haloconv::depthwise_direct {

// Four elements of one channel.
template <bool kFused, class T>
__device__ __forceinline__ void write_sums(const KernelArguments<T>& args, int32_t channel,
                                           float (&sums)[kFusedAtOnce],
                                           const OutputElement (&elements)[kFusedAtOnce]) {
  if constexpr (kFused) {
    store_fused(args, sums, elements);
  } else {
    const float bias = args.bias == nullptr ? -0.0f : load(args.bias + channel);
#pragma unroll
    for (int i = 0; i < kFusedAtOnce; ++i) {
      if (elements[i].exists) store(args.destination + elements[i].offset, sums[i] + bias);
    }
  }
}

}  // namespace haloconv::depthwise_direct
