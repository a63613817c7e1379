// The instantiations of the kernels, by type: each has all tiles, of both directions or with the
// bias gradient and without.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/pointwise/arguments.h"
#include "conv2d/families/pointwise/paired_arguments.h"
#include "conv2d/families/pointwise/wgrad_arguments.h"

namespace haloconv::pointwise {

template <class T>
void launch_instance(const Plan& plan, const Arguments& args, unsigned blocks, cudaStream_t stream);

template <class T>
void launch_wgrad_instance(const WgradPlan& plan, const WgradArguments& args, unsigned blocks,
                           cudaStream_t stream);

template <class T>
void launch_paired_instance(const WgradPlan& plan, const PairedArguments& args,
                            cudaStream_t stream);

}  // namespace haloconv::pointwise
