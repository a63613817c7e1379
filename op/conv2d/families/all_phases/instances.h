// The instantiations of the kernel, by type: each has all tiles.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/all_phases/arguments.h"
#include "conv2d/families/all_phases/plan.h"

namespace haloconv::all_phases {

template <class T>
void launch_instance(const Tile& tile, const Arguments& args, int multiprocessors,
                     cudaStream_t stream);

}  // namespace haloconv::all_phases
