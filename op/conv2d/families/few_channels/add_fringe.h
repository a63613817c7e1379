#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::sm90::scatter {

// Adds the two parts of the fringe's sums, and writes them where they belong.
void launch_add_fringe(const Arguments& args, cudaStream_t stream);

}  // namespace haloconv::sm90::scatter
