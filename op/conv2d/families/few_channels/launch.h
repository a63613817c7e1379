#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/few_channels/plan.h"

namespace haloconv::sm90::scatter {

// Enqueues the packing of the filter, then the kernel. `bias` may be null.
void launch(const Plan& plan, const float* source, const float* filter, const float* bias,
            float* destination, void* workspace, int multiprocessors, cudaStream_t stream);

}  // namespace haloconv::sm90::scatter
