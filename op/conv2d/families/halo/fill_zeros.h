#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/zero_arguments.h"

namespace haloconv::sm90 {

// Writes activation((0 + bias) * scale + shift + residual). T: the destination's elements.
template <class T>
void launch_fill_zeros(const ZeroArguments& args, cudaStream_t stream);

}  // namespace haloconv::sm90
