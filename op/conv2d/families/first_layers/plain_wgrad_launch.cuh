// Starts the kernels of plain_wgrad.h: each file of instances has those for one number of chunks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/families/first_layers/plain_rows_instances.h"
#include "conv2d/families/first_layers/plain_wgrad_kernel.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::first_layers {

template <int kChunks>
void launch_plain_wgrad(DataType type, const CUtensorMap& rows_map,
                        const CUtensorMap& grad_output_map, const PlainWgradArguments& args,
                        int64_t shared_bytes, cudaStream_t stream) {
  const auto kernel = type == DataType::kFloat16 ? plain_wgrad_kernel<__half, kChunks>
                                                 : plain_wgrad_kernel<__nv_bfloat16, kChunks>;
  allow_shared_bytes(kernel, kMostSharedBytes);
  const int32_t blocks = args.wgrad.sweep.runs * args.wgrad.channel_tiles;
  launch_dependent(kernel, static_cast<unsigned>(blocks), args.math_threads() + 32, shared_bytes,
                   stream, "sm90 first_layers wgrad", rows_map, grad_output_map, args);
}

}  // namespace haloconv::sm90::first_layers
