#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/pack_arguments.h"

namespace haloconv::halo {

// T: the filter's elements.
template <class T>
void launch_pack_filter(const PackArguments& args, cudaStream_t stream);

}  // namespace haloconv::halo
