// Adds the blocks' sums, in an order that only their number fixes, and writes both gradients.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::pointwise {

// (k, c), and (k) or null.
template <class T>
void launch_add_parts(const WgradArguments& args, const Strides& filter, T* grad_filter,
                      T* grad_bias, cudaStream_t stream);

}  // namespace haloconv::sm90::pointwise
