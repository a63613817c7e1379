// Declares the launches of strips, which are compiled in a file for each tile.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/channels_last/instances.h"
#include "conv2d/families/channels_last/strips.h"

namespace haloconv::sm90::channels_last {

template <StripTile kStrip>
void launch_strips(const Instance& instance, const StripLaunch& launch, const WindowMaps& maps,
                   cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last
