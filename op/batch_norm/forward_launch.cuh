// From what is given to the forward kernel that computes it.
#pragma once

#include "batch_norm/forward.cuh"
#include "batch_norm/instances.h"
#include "cuda/launch_together.cuh"

namespace haloconv::batch_norm {

template <class T>
void launch_forward_of(ActivationKind activation, const Plan& plan, const Forward& operands,
                       CUstream_st* stream) {
  with_kernels_of(activation, [&](auto kind) {
    launch_together(operands.residual != nullptr ? batch_norm_forward<T, kind(), true>
                                                 : batch_norm_forward<T, kind(), false>,
                    static_cast<unsigned>(plan.blocks()), kThreads, stream, "batch_norm_forward",
                    plan, operands);
  });
}

}  // namespace haloconv::batch_norm
