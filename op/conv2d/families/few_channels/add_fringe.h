#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::few_channels {

// Adds the two bands' parts of the fringe's sums, and writes them where they belong. T: the
// elements of the destination.
template <class T>
void launch_add_fringe(const Arguments& args, cudaStream_t stream);

}  // namespace haloconv::few_channels
