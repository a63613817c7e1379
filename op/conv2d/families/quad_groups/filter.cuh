// Filters and biases of groups.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/quad_groups/kernels.h"

namespace haloconv::quad_groups {

// Where an element of a group's filter is.
__device__ __forceinline__ int64_t filter_at(const Arguments& args, int32_t group, int32_t result,
                                             int32_t source, int32_t row, int32_t column) {
  return args.filter_first + group * args.filter_group + result * args.filter_result +
         source * args.filter_source + row * args.filter_row + column * args.filter_column;
}

template <class T>
__device__ __forceinline__ float bias_at(const Tensors& tensors, int32_t channel) {
  if (tensors.bias == nullptr) return 0;
  return Element<T>::to_float(static_cast<const T*>(tensors.bias)[channel]);
}

}  // namespace haloconv::quad_groups
