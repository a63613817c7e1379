#include "conv2d/families/pointwise/launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>

#include "chip/chip_of_device.h"
#include "conv2d/families/pointwise/add_parts.h"
#include "conv2d/families/pointwise/instances.h"
#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/family.h"

namespace haloconv::sm90::pointwise {

void launch(const Conv2dProblem& problem, const Plan& plan, const void* source, const void* filter,
            const void* bias, void* destination, int multiprocessors, cudaStream_t stream) {
  if (!plan.arguments) throw std::logic_error("haloconv: a pointwise plan has no arguments");
  Arguments args = *plan.arguments;
  args.source = source;
  args.filter = filter;
  args.bias = bias;
  args.destination = destination;
  args.filter_unit = aligned_unit(args.filter_unit, filter);
  args.pixel_unit = aligned_unit(aligned_unit(args.pixel_unit, source), destination);
  const auto blocks =
      static_cast<unsigned>(std::min(args.tiles, multiprocessors * blocks_of(plan.tile)));
  if (problem.type == DataType::kFloat16) {
    launch_instance<__half>(plan, args, blocks, stream);
  } else {
    launch_instance<__nv_bfloat16>(plan, args, blocks, stream);
  }
}

void launch_wgrad(const Conv2dProblem& problem, const WgradPlan& plan, const void* grad_output,
                  const void* input, void* grad_filter, void* grad_bias, void* workspace,
                  cudaStream_t stream) {
  if (!plan.arguments) throw std::logic_error("haloconv: a pointwise plan has no arguments");
  WgradArguments args = *plan.arguments;
  args.grad_output = grad_output;
  args.input = input;
  args.partial = static_cast<float*>(workspace);
  if (plan.with_bias) args.bias_partial = args.partial + args.splits * args.part_floats();
  args.pixel_unit = aligned_unit(aligned_unit(args.pixel_unit, grad_output), input);
  const auto launch_typed = [&]<class T>(T) {
    launch_wgrad_instance<T>(plan, args, static_cast<unsigned>(args.blocks()), stream);
    launch_add_parts<T>(args, problem.filter, static_cast<T*>(grad_filter),
                        plan.with_bias ? static_cast<T*>(grad_bias) : nullptr, stream);
  };
  if (problem.type == DataType::kFloat16) {
    launch_typed(__half{});
  } else {
    launch_typed(__nv_bfloat16{});
  }
}

}  // namespace haloconv::sm90::pointwise

namespace haloconv::pointwise {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  if (const auto* wgrad = dynamic_cast<const PlanOf<sm90::pointwise::WgradPlan>*>(&plan)) {
    return sm90::pointwise::launch_wgrad(wgrad->problem, wgrad->details, operands.output,
                                         operands.input, operands.result, operands.grad_bias,
                                         operands.workspace, stream);
  }
  const auto& made = made_by_family<sm90::pointwise::Plan>(plan);
  const bool fprop = made.details.direction == Direction::kFprop;
  sm90::pointwise::launch(made.problem, made.details, fprop ? operands.input : operands.output,
                          operands.filter, operands.bias, operands.result,
                          chip_of_current_device().multiprocessors, stream);
}

}  // namespace haloconv::pointwise
