#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/channels_last_wgrad/arguments.h"

namespace haloconv::sm90::channels_last_wgrad {

// Adds the outer splits' sums. To be launched right after the kernel that writes them.
template <class T, class Args>
void launch_add_partials(const Args& args, const Tile& tile, cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last_wgrad
