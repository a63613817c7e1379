// Copies of tensors to dense ones that have blocks of pixels in one, and back.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/relaid/block_copy.h"

namespace haloconv::relaid {

// The whole dense tensor is written, with zeros where the other has nothing.
void launch_to_blocks(const BlockCopy& copy, cudaStream_t stream);
// All of the tensor that is in blocks is written.
void launch_from_blocks(const BlockCopy& copy, cudaStream_t stream);

}  // namespace haloconv::relaid
