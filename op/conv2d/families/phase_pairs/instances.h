// The instantiations of the kernel, by pattern: each has all tiles.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "conv2d/families/phase_pairs/arguments.h"
#include "conv2d/families/phase_pairs/plan.h"

namespace haloconv::phase_pairs {

// By the number of a pattern in kPatterns.
template <int kPattern>
void launch_instance(const Tile& tile, const Arguments& args, const CUtensorMap& source,
                     int multiprocessors, cudaStream_t stream);

}  // namespace haloconv::phase_pairs
