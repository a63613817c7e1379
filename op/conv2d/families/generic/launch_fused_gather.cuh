// The kernels that take a fusion: each file instances/gather_fused_*.cu has those of one element
// type.
#pragma once

#include "conv2d/families/generic/launch_gather_kernel.cuh"

namespace haloconv::generic {

template <class T>
void launch_fused_gather(const GatherArguments<T>& args, const Plan& plan, cudaStream_t stream) {
  launch_gather_kernel<T, true>(args, plan, stream);
}

}  // namespace haloconv::generic
