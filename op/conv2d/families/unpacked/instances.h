// Declares the kernels' launches, which are compiled in a file for each tile.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "conv2d/families/unpacked/arguments.h"

namespace haloconv::unpacked {

template <Tile kTile>
void launch_tile(const Arguments& args, const CUtensorMap& source, const CUtensorMap& filter,
                 uint32_t box_bytes, int multiprocessors, cudaStream_t stream);

// Adds the sums of splits, in their order, and the bias.
void launch_add_splits(const SplitSums& sums, cudaStream_t stream);

}  // namespace haloconv::unpacked
