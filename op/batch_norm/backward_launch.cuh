// From what is given to the backward kernel that computes it.
#pragma once

#include "batch_norm/backward.cuh"
#include "batch_norm/instances.h"
#include "cuda/launch_together.cuh"

namespace haloconv::batch_norm {

template <class T>
void launch_backward_of(ActivationKind activation, const Plan& plan, const Backward& operands,
                        CUstream_st* stream) {
  with_kernels_of(activation, [&](auto kind) {
    const bool second = operands.second_gradient != nullptr;
    auto kernel = second ? batch_norm_backward<T, kind(), false, true>
                         : batch_norm_backward<T, kind(), false, false>;
    if constexpr (kind() != ActivationKind::kNone) {
      if (operands.residual != nullptr) {
        kernel = second ? batch_norm_backward<T, kind(), true, true>
                        : batch_norm_backward<T, kind(), true, false>;
      }
    }
    launch_together(kernel, static_cast<unsigned>(plan.blocks()), kThreads, stream,
                    "batch_norm_backward", plan, operands);
  });
}

}  // namespace haloconv::batch_norm
