#include "conv2d/families/heads/kernels.h"
#include "conv2d/family.h"

namespace haloconv::heads {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const bool fprop = made.details.direction == Direction::kFprop;
  launch_heads(made.problem.type, made.details,
               {.source = fprop ? operands.input : operands.output,
                .filter = operands.filter,
                .bias = operands.bias,
                .result = operands.result},
               stream);
}

}  // namespace haloconv::heads
