// Starts the kernels of plain_rows.h: each file of instances has those for one number of channels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/families/first_layers/plain_rows_instances.h"
#include "conv2d/families/first_layers/plain_rows_kernel.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::first_layers {

template <int kN>
void launch_plain_rows(const FpropInstance& instance, const CUtensorMap& map,
                       const PlainRowsArguments& args, cudaStream_t stream) {
  const auto start = [&](auto kernel) {
    allow_shared_bytes(kernel, kMostSharedBytes);
    const int32_t blocks = args.fprop.sweep.runs * args.fprop.channel_tiles.divisor;
    launch_dependent(kernel, static_cast<unsigned>(blocks), kPlainThreads, instance.shared_bytes,
                     stream, "sm90 first_layers", map, args);
  };
  if (instance.type == DataType::kFloat16) {
    start(instance.fused ? plain_rows_kernel<__half, kN, true>
                         : plain_rows_kernel<__half, kN, false>);
  } else {
    start(instance.fused ? plain_rows_kernel<__nv_bfloat16, kN, true>
                         : plain_rows_kernel<__nv_bfloat16, kN, false>);
  }
}

}  // namespace haloconv::sm90::first_layers
