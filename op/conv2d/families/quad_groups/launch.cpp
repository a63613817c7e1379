#include "conv2d/families/quad_groups/kernels.h"
#include "conv2d/family.h"

namespace haloconv::quad_groups {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const bool fprop = made.details.direction == Direction::kFprop;
  const Way way = made.details.way;
  const auto launch_kernel = way == Way::kRows       ? launch_rows
                             : way == Way::kChannels ? launch_channels
                             : way == Way::kProducts ? launch_products
                                                     : launch_periods;
  launch_kernel(made.problem.type, made.details,
                {.source = fprop ? operands.input : operands.output,
                 .filter = operands.filter,
                 .bias = operands.bias,
                 .result = operands.result},
                stream);
}

}  // namespace haloconv::quad_groups
