// The instantiations of the kernel: elements, rows of taps, and the columns of each row.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::few_channels {

template <class T, int kRowTaps, int kColumns, bool kShuffles>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream);

}  // namespace haloconv::few_channels
