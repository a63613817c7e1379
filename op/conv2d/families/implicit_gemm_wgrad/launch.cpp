#include "conv2d/families/implicit_gemm_wgrad/instances.h"
#include "conv2d/families/implicit_gemm_wgrad/plan.h"
#include "conv2d/family.h"
#include "conv2d/with_tile.h"

namespace haloconv::implicit_gemm_wgrad {

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  Arguments args = made.details.args;
  args.input = operands.input;
  args.grad_output = operands.output;
  args.partial = static_cast<float*>(operands.workspace);
  with_tile(kTiles, made.details.tile, "implicit_gemm_wgrad", [&]<size_t kIndex>() {
    launch_tile<kIndex>(made.problem.type, made.details.access, args, operands.result,
                        operands.grad_bias, stream);
  });
}

}  // namespace haloconv::implicit_gemm_wgrad
