// Adds partial sums, in an order that depends only on how many they are, and writes both gradients.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::wgrad {

// (k, c, r, s), and (k) or null.
template <class T>
void launch_reduce_partials(const Arguments& args, const Strides& filter, T* grad_filter,
                            T* grad_bias, cudaStream_t stream);

}  // namespace haloconv::wgrad
