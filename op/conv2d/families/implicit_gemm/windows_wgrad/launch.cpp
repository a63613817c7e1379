#include "conv2d/families/implicit_gemm/windows_wgrad/add_partials.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/instances.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"
#include "conv2d/family.h"
#include "conv2d/with_tile.h"

namespace haloconv::windows_wgrad {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  Arguments args = made.details.args;
  args.input = operands.input;
  args.grad_output = operands.output;
  args.partial = static_cast<float*>(operands.workspace);
  with_tile(kTiles, made.details.tile, "windows_wgrad",
            [&]<size_t kIndex>() { launch_tile<kIndex>(made.problem.type, args, stream); });
  launch_add_partials(made.problem.type, args, made.details.tile, operands.result,
                      operands.grad_bias, stream);
}

}  // namespace haloconv::windows_wgrad
