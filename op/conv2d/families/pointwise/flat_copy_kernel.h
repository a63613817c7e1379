// The copies of flat_copy.h: (channels of the input and of grad_output, all images' pixels).
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/pointwise/flat_copy.h"

namespace haloconv::pointwise {

void launch_flat_copy(const FlatCopy& copy, const void* input, const void* grad_output, void* to,
                      cudaStream_t stream);

}  // namespace haloconv::pointwise
