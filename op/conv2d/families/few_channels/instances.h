// The instantiations of the kernel: rows of taps, columns of each.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::few_channels {

void launch_3x16(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_3x48(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_5x24(const Arguments& args, unsigned blocks, cudaStream_t stream);

}  // namespace haloconv::few_channels
