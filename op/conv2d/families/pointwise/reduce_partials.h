// Adds partial sums, in an order that depends only on how many they are, and writes both gradients.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

// (k, c), and (k) or null.
template <class T>
void launch_reduce_partials(const WgradArguments& args, const Strides& filter, T* grad_filter,
                            T* grad_bias, cudaStream_t stream);

}  // namespace haloconv::pointwise
