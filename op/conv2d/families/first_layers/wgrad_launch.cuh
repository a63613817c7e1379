// Starts wgrad's kernels: each file of instances has those for one shape of sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/families/first_layers/wgrad_kernel.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::first_layers {

template <int kColumns, int kRows, bool kRowsInnermost>
void launch_wgrad(DataType type, const CUtensorMap& map, const WgradArguments& args,
                  int64_t shared_bytes, cudaStream_t stream) {
  const auto start = [&](auto kernel) {
    allow_shared_bytes(kernel, kMostSharedBytes);
    launch_dependent(kernel, static_cast<unsigned>(args.sweep.runs * args.channel_tiles),
                     kWgradThreads, shared_bytes, stream, "sm90 first_layers wgrad", map, args);
  };
  if (type == DataType::kFloat16) {
    start(wgrad_kernel<__half, kColumns, kRows, kRowsInnermost>);
  } else {
    start(wgrad_kernel<__nv_bfloat16, kColumns, kRows, kRowsInnermost>);
  }
}

}  // namespace haloconv::sm90::first_layers
