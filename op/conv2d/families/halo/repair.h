// Sums of folds that zeros made NaN, computed once more.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::sm90 {

// Computes what the launch before put on its list, with all that is fused with it. T: the source's
// elements.
template <class T>
void launch_repair(const Arguments& args, int blocks, cudaStream_t stream);

}  // namespace haloconv::sm90
