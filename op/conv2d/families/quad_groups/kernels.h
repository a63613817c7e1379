// The kernels that launch.cpp starts.
#pragma once

#include <cuda_runtime.h>

#include "conv2d/families/quad_groups/plan.h"

namespace haloconv::quad_groups {

// The tensors of a call; `source` is the input or the output's gradient.
struct Tensors {
  const void *source, *filter, *bias;  // the bias may be null
  void* result;
};

void launch_rows(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);
void launch_channels(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);
void launch_products(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);
void launch_periods(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);

// Calls body.template operator()<side, stride>() with the plan's filter as constants.
template <class Body>
void with_filter(const Plan& plan, Body body) {
  if (plan.side == 4) return body.template operator()<4, 2>();
  if (plan.stride == 2) return body.template operator()<3, 2>();
  body.template operator()<3, 1>();
}

}  // namespace haloconv::quad_groups
