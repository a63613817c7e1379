#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "conv2d/families/channels_last_tf32_wgrad/plan.h"
#include "conv2d/family.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

void launch(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
            cudaStream_t stream) {
  Arguments args = plan.args;
  const PatchMaps maps = make_patch_maps(
      problem, args, plan.flat, {kPixelBytes / int32_t{sizeof(float)}, args.box_w, plan.box_h},
      operands.output, operands.input);
  args.grad_filter = operands.result;
  args.grad_bias = operands.grad_bias;
  args.partial = static_cast<float*>(operands.workspace);
  args.bias_partial = args.partial + int64_t{args.splits} * args.tiles * plan.tile.values();
  launch_kernel(plan.tile, maps, args, plan.shared_bytes, stream);
  launch_add_splits(plan.tile, args, stream);
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad

namespace haloconv::channels_last_tf32_wgrad {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::channels_last_tf32_wgrad::Plan>(plan);
  sm90::channels_last_tf32_wgrad::launch(made.problem, made.details, operands, stream);
}

}  // namespace haloconv::channels_last_tf32_wgrad
