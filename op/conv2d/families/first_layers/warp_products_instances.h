// The launches of warp_products.h's kernels, each compiled in a file of its own.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "conv2d/families/first_layers/warp_products.h"

namespace haloconv::sm90::first_layers {

template <int kChunks>
void launch_warp_products(const CUtensorMap& rows_map, const CUtensorMap& grad_output_map,
                          const WarpProductsArguments& args, int64_t shared_bytes,
                          cudaStream_t stream);

// launch_add_runs() for warp_products.h.
void launch_add_warp_runs(const WarpProductsArguments& args, cudaStream_t stream);

}  // namespace haloconv::sm90::first_layers
