// The instantiations of the kernel: elements, and the blocks that share source channels.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/row_strips/arguments.h"

namespace haloconv::row_strips {

template <class T, int kBlocks>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream);

}  // namespace haloconv::row_strips
