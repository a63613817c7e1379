// The copies of unfold.h.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/pointwise/unfold.h"

namespace haloconv::pointwise {

// The input's copy.
void launch_unfold(const Unfold& unfold, const void* input, void* copy, cudaStream_t stream);

// The input's gradient: the copy's pixels at their places, and zeros.
void launch_spread_out(const Unfold& unfold, const void* copy, void* grad_input,
                       cudaStream_t stream);

}  // namespace haloconv::pointwise
