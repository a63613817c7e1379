#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>

#include "chip/chip_of_device.h"
#include "conv2d/families/pointwise/flat_copy_kernel.h"
#include "conv2d/families/pointwise/instances.h"
#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/families/pointwise/reduce_partials.h"
#include "conv2d/families/pointwise/unfold_kernels.h"
#include "conv2d/family.h"

namespace haloconv::pointwise {

namespace {

// Calls body(T{}) with the type of the elements, a 16-bit type.
template <class Body>
void with_16_bits(DataType type, Body body) {
  if (type == DataType::kFloat16) {
    body(__half{});
  } else {
    body(__nv_bfloat16{});
  }
}

// fprop or dgrad.
void launch_product(const PlanOf<Plan>& made, const Operands& operands, cudaStream_t stream) {
  const Plan& plan = made.details;
  if (!plan.arguments) throw std::logic_error("haloconv: a pointwise plan has no arguments");
  Arguments args = *plan.arguments;
  args.source = plan.direction == Direction::kFprop ? operands.input : operands.output;
  args.filter = operands.filter;
  args.bias = operands.bias;
  args.destination = operands.result;
  const bool copies_result = plan.unfold && plan.direction == Direction::kDgrad;
  if (copies_result) {
    args.destination = operands.workspace;
  } else if (plan.unfold) {
    launch_unfold(*plan.unfold, operands.input, operands.workspace, stream);
    args.source = operands.workspace;
  }
  args.filter_unit = aligned_unit(args.filter_unit, args.filter);
  args.pixel_unit = aligned_unit(args.pixel_unit, args.source);
  args.result_unit = aligned_unit(args.result_unit, args.destination);
  if (!plan.spread) {
    args.pixel_unit = args.result_unit = std::min(args.pixel_unit, args.result_unit);
  } else if (args.result_unit == 1) {
    throw std::runtime_error(
        "haloconv: the address of the result was expected to be a multiple of 4 bytes");
  }
  const int resident = chip_of_current_device().multiprocessors * blocks_of(plan.tile);
  const auto blocks = static_cast<unsigned>(std::min(args.tiles, resident));
  with_16_bits(made.problem.type,
               [&]<class T>(T) { launch_instance<T>(plan, args, blocks, stream); });
  if (copies_result) launch_spread_out(*plan.unfold, operands.workspace, operands.result, stream);
}

// Of a filter a few columns wide with a stride of 2.
void launch_paired(const PlanOf<WgradPlan>& made, const Operands& operands, cudaStream_t stream) {
  const WgradPlan& plan = made.details;
  PairedArguments args = *plan.paired;
  WgradArguments& product = args.product;
  product.grad_output = operands.output;
  product.input = operands.input;
  product.partial = static_cast<float*>(operands.workspace);
  if (plan.with_bias) {
    product.bias_partial = product.partial + product.splits * product.partial_floats();
  }
  const auto run = [&]<class T>(T) {
    launch_paired_instance<T>(plan, args, stream);
    launch_reduce_partials<T>(product, made.problem.filter, static_cast<T*>(operands.result),
                              plan.with_bias ? static_cast<T*>(operands.grad_bias) : nullptr,
                              stream);
  };
  if (made.problem.type == DataType::kFloat32) {
    run(float{});
  } else {
    with_16_bits(made.problem.type, run);
  }
}

// The kernel, then the sum of its partial sums.
void launch_wgrad(const PlanOf<WgradPlan>& made, const Operands& operands, cudaStream_t stream) {
  const WgradPlan& plan = made.details;
  if (plan.paired) return launch_paired(made, operands, stream);
  if (!plan.arguments) throw std::logic_error("haloconv: a pointwise plan has no arguments");
  WgradArguments args = *plan.arguments;
  args.grad_output = operands.output;
  args.input = operands.input;
  args.partial = static_cast<float*>(operands.workspace);
  if (plan.unfold) {
    launch_unfold(*plan.unfold, operands.input, operands.workspace, stream);
    args.input = operands.workspace;
    args.partial += plan.unfold->workspace_bytes() / static_cast<int64_t>(sizeof(float));
  } else if (const auto& copy = plan.flat_copy) {
    launch_flat_copy(*copy, operands.input, operands.output, operands.workspace, stream);
    args.input = operands.workspace;
    args.grad_output =
        static_cast<const char*>(operands.workspace) + copy->c * copy->channel_bytes();
    args.partial += copy->workspace_bytes() / static_cast<int64_t>(sizeof(float));
  }
  if (plan.with_bias) args.bias_partial = args.partial + args.splits * args.partial_floats();
  args.pixel_unit = aligned_unit(aligned_unit(args.pixel_unit, args.grad_output), args.input);
  const auto run = [&]<class T>(T) {
    launch_wgrad_instance<T>(plan, args, static_cast<unsigned>(args.blocks()), stream);
    launch_reduce_partials<T>(args, made.problem.filter, static_cast<T*>(operands.result),
                              plan.with_bias ? static_cast<T*>(operands.grad_bias) : nullptr,
                              stream);
  };
  if (made.problem.type == DataType::kFloat32) {
    run(float{});
  } else {
    with_16_bits(made.problem.type, run);
  }
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  if (const auto* wgrad = dynamic_cast<const PlanOf<WgradPlan>*>(&plan)) {
    Operands of_product = operands;
    if (wgrad->details.is_full_filter) {
      of_product.output = operands.input;
      of_product.input = operands.filter;
    }
    return launch_wgrad(*wgrad, of_product, stream);
  }
  launch_product(made_by_family<Plan>(plan), operands, stream);
}

}  // namespace haloconv::pointwise
