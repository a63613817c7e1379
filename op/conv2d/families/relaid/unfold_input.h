// The copy of the input for a product of pixels.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/geometry/unfold.h"

namespace haloconv::relaid {

void launch_unfold(const Unfold& unfold, const void* input, void* copy, cudaStream_t stream);

}  // namespace haloconv::relaid
