#include "conv2d/families/heads/kernels.h"
#include "conv2d/family.h"

namespace haloconv::heads {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  if (made.details.direction == Direction::kWgrad) {
    launch_wgrad(made.problem.type, made.details,
                 {.input = operands.input,
                  .grad_output = operands.output,
                  .grad_filter = operands.result,
                  .grad_bias = operands.grad_bias,
                  .workspace = operands.workspace},
                 stream);
    return;
  }
  const bool fprop = made.details.direction == Direction::kFprop;
  const auto launch_direction = fprop ? launch_fprop : launch_dgrad;
  launch_direction(made.problem.type, made.details,
                   {.source = fprop ? operands.input : operands.output,
                    .filter = operands.filter,
                    .bias = operands.bias,
                    .result = operands.result},
                   stream);
}

}  // namespace haloconv::heads
