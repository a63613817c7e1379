// Starts fprop's kernels: each file of instances has those for one number of channels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/families/first_layers/fprop_kernel.cuh"
#include "conv2d/families/first_layers/instances.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::first_layers {

template <int kN, bool kRows>
void launch_fprop(const FpropInstance& instance, const FpropArguments& args, cudaStream_t stream) {
  const auto start = [&](auto kernel) {
    allow_shared_bytes(kernel, kMostSharedBytes);
    kernel<<<static_cast<unsigned>(args.sweep.runs * args.channel_tiles.divisor), kFpropThreads,
             static_cast<size_t>(instance.shared_bytes), stream>>>(args);
    check_launch("sm90 first_layers");
  };
  if (instance.type == DataType::kFloat32) {
    start(instance.fused ? fprop_kernel<float, kN, true, kRows>
                         : fprop_kernel<float, kN, false, kRows>);
  } else if (instance.type == DataType::kFloat16) {
    start(instance.fused ? fprop_kernel<__half, kN, true, kRows>
                         : fprop_kernel<__half, kN, false, kRows>);
  } else {
    start(instance.fused ? fprop_kernel<__nv_bfloat16, kN, true, kRows>
                         : fprop_kernel<__nv_bfloat16, kN, false, kRows>);
  }
}

}  // namespace haloconv::sm90::first_layers
