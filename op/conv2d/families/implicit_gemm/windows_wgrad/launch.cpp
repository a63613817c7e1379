#include <stdexcept>
#include <utility>

#include "conv2d/families/implicit_gemm/windows_wgrad/instances.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"
#include "conv2d/family.h"

namespace haloconv::windows_wgrad {

namespace {

template <size_t... kIndex>
void launch_tile(const Plan& plan, DataType type, const Arguments& args, const Operands& operands,
                 cudaStream_t stream, std::index_sequence<kIndex...>) {
  const bool found =
      ((plan.tile == kTiles[kIndex] &&
        (launch_tile<kIndex>(type, args, operands.result, operands.grad_bias, stream), true)) ||
       ...);
  if (!found) throw std::logic_error("haloconv: no windows_wgrad kernel has this tile");
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  Arguments args = made.details.args;
  args.input = operands.input;
  args.grad_output = operands.output;
  args.partial = static_cast<float*>(operands.workspace);
  launch_tile(made.details, made.problem.type, args, operands, stream,
              std::make_index_sequence<kTileCount>{});
}

}  // namespace haloconv::windows_wgrad
