// Copies of tensors from rows innermost to channels innermost, and back.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/relaid/arguments.h"

namespace haloconv::relaid {

// From tensors of any strides to dense ones with channels innermost.
void launch_to_channels(const Copies& copies, cudaStream_t stream);
// Back.
void launch_to_rows(const Copies& copies, cudaStream_t stream);

}  // namespace haloconv::relaid
