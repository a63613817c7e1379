// Starts the kernels of warp_products.h: each file of instances has that for one number of chunks.
#pragma once

#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/warp_products_instances.h"
#include "conv2d/families/first_layers/warp_products_kernel.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::first_layers {

template <int kChunks>
void launch_warp_products(const CUtensorMap& rows_map, const CUtensorMap& grad_output_map,
                          const WarpProductsArguments& args, int64_t shared_bytes,
                          cudaStream_t stream) {
  const auto kernel = warp_products_kernel<kChunks>;
  allow_shared_bytes(kernel, kMostSharedBytes);
  const int32_t blocks = args.wgrad.sweep.runs * args.wgrad.channel_tiles;
  launch_dependent(kernel, static_cast<unsigned>(blocks), kWarpProductsThreads, shared_bytes,
                   stream, "sm90 first_layers wgrad", rows_map, grad_output_map, args);
}

}  // namespace haloconv::sm90::first_layers
