#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "batch_norm/instances.h"

namespace haloconv::batch_norm {

void launch_forward(DataType type, ActivationKind activation, const Plan& plan,
                    const Forward& operands, CUstream_st* stream) {
  const auto launch =
      type == DataType::kFloat16 ? launch_forward_of<__half> : launch_forward_of<__nv_bfloat16>;
  launch(activation, plan, operands, stream);
}

void launch_backward(DataType type, ActivationKind activation, const Plan& plan,
                     const Backward& operands, CUstream_st* stream) {
  const auto launch =
      type == DataType::kFloat16 ? launch_backward_of<__half> : launch_backward_of<__nv_bfloat16>;
  launch(activation, plan, operands, stream);
}

}  // namespace haloconv::batch_norm
