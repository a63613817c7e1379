#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/zero_arguments.h"

namespace haloconv::halo {

// Writes activation((0 + bias) * scale + shift + residual) to pixels that no tap meets. T is the
// destination's element type.
template <class T>
void launch_fill_zeros(const ZeroArguments& args, cudaStream_t stream);

}  // namespace haloconv::halo
