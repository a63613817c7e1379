// Computes sums of folds once more that products with zeros made NaN.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::halo {

// What the launch before has marked, with all that is fused with it. T: the source's elements.
template <class T>
void launch_repair(const Arguments& args, int multiprocessors, cudaStream_t stream);

}  // namespace haloconv::halo
