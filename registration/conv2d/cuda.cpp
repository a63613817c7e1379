// CUDA kernels: the arguments are checked, an implementation is chosen, results and workspace are
// allocated, and op/ computes on the caller's stream.
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/DeviceGuard.h>

#include <optional>
#include <sstream>

#include "conv2d/choice.h"
#include "cuda/device.h"
#include "registration/conv2d/aten.h"
#include "registration/conv2d/checks.h"
#include "registration/conv2d/force.h"
#include "registration/conv2d/ops.h"
#include "registration/conv2d/tune.h"
#include "registration/library.h"
#include "registration/torch_compat/cuda_empty.h"
#include "registration/torch_compat/cudnn.h"

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;

// The sizes are those of a problem, which has no symbols. A kernel writes all of it.
at::Tensor empty_result(SymIntArrayRef size, const at::Tensor& like, at::MemoryFormat format) {
  return cuda_empty(C10_AS_INTARRAYREF_SLOW(size), like, format);
}

// One direction of a call: by_aten(selection) is its result by ATen, by_kernels(family, plan) by a
// kernel family.
template <class ByAten, class ByKernels>
class Run {
 public:
  Run(const Conv2dProblem& problem, const Computation& computation, ByAten by_aten,
      ByKernels by_kernels)
      : by_aten_(std::move(by_aten)),
        by_kernels_(std::move(by_kernels)),
        selection_(select(problem, computation)),
        candidate_(candidate_for(*selection_, [&](const Candidate& each) { run(each); })) {}

  bool is_aten() const { return candidate_.is_aten(); }
  auto operator()() const { return run(candidate_); }

 private:
  auto run(const Candidate& candidate) const {
    return candidate.is_aten() ? by_aten_(*selection_)
                               : by_kernels_(*candidate.family, *candidate.plan);
  }

  ByAten by_aten_;
  ByKernels by_kernels_;
  std::shared_ptr<Selection> selection_;
  const Candidate& candidate_;
};

// Launches a plan's kernels on the current stream.
void launch(const Family& family, const Plan& plan, Operands& operands) {
  c10::DataPtr workspace;  // from the allocator itself: a tensor around it takes as long again
  if (plan.workspace_bytes > 0) {
    workspace = at::cuda::getCUDADeviceAllocator()->allocate(plan.workspace_bytes);
    operands.workspace = workspace.get();
  }
  const auto stream = at::cuda::getCurrentCUDAStream();
  use_device(stream.device_index());
  family.launch(plan, operands, stream);
}

// What a kernel takes of an epilogue; the tensors that are made for it stay alive with it.
class FusionOperands {
 public:
  FusionOperands(const Conv2dArguments& args, const Epilogue& epilogue) {
    if (is_given(epilogue.scale)) scale_ = epilogue.scale->contiguous();
    if (is_given(epilogue.shift)) shift_ = epilogue.shift->contiguous();
    if (is_given(epilogue.residual)) {
      residual_ = args.images(*epilogue.residual).contiguous(args.memory_format);
    }
    fusion_ = {pointer(scale_), pointer(shift_), pointer(residual_), epilogue.activation};
  }

  const Fusion& fusion() const { return fusion_; }

 private:
  static const void* pointer(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
  }

  at::Tensor scale_, shift_, residual_;
  Fusion fusion_;
};

at::Tensor aten_fprop(Selection& selection, const Conv2dArguments& args, const at::Tensor& x,
                      const at::Tensor& weight, const ops::OptionalTensor& bias) {
  int is_cudnn = selection.aten_is_cudnn;
  if (is_cudnn < 0) {
    is_cudnn = cudnn::is_atens_choice(args, x, weight, bias);
    selection.aten_is_cudnn = is_cudnn;
  }
  return is_cudnn ? cudnn::fprop(args, x, weight, bias) : aten::fprop(args, x, weight, bias);
}

// A forward operator, and the fused one if there is an epilogue, which is computed in the kernel,
// or after it on its result. A transposed operator computes dgrad, which takes an epilogue as fprop
// does.
at::Tensor compute(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias, const Epilogue* epilogue) {
  const c10::DeviceGuard device(input.device());
  const bool transposed = args.transposed;
  const at::Tensor x = args.operand(input), filters = args.filters(weight);
  const at::Tensor none;
  const auto problem = make_problem(args, transposed ? none : x, filters, transposed ? x : none);
  const bool has_bias = is_given(bias);
  const at::Tensor dense_bias = has_bias ? bias->contiguous() : at::Tensor();
  const void* const bias_pointer = has_bias ? dense_bias.const_data_ptr() : nullptr;
  const auto separately = [&](const at::Tensor& images) {
    if (epilogue != nullptr) epilogue->apply_in_place(args.result(images));
    return images;
  };
  const auto by_aten = [&](Selection& selection) {
    return separately(transposed ? aten::transposed(args, x, filters, bias)
                                 : aten_fprop(selection, args, x, filters, bias));
  };
  const auto by_kernels = [&](const Family& family, const Plan& plan) {
    const at::Tensor images =
        empty_result(transposed ? args.input_size() : args.output_size(), x, args.memory_format);
    Operands operands{.input = transposed ? nullptr : x.const_data_ptr(),
                      .filter = filters.const_data_ptr(),
                      .output = transposed ? x.const_data_ptr() : nullptr,
                      .result = images.mutable_data_ptr(),
                      .bias = plan.takes_bias ? bias_pointer : nullptr};
    if (epilogue != nullptr && plan.takes_fusion) {
      const FusionOperands fusion(args, *epilogue);
      operands.fusion = fusion.fusion();
      launch(family, plan, operands);
      return images;
    }
    launch(family, plan, operands);
    if (has_bias && !plan.takes_bias) images.add_(bias->view({-1, 1, 1}));
    return separately(images);
  };
  const bool has_residual = epilogue != nullptr && is_given(epilogue->residual);
  const Run run(problem,
                {.direction = transposed ? Direction::kDgrad : Direction::kFprop,
                 .fused = epilogue != nullptr,
                 .is_aligned = begin_at_16_bytes(
                     x, filters, has_residual ? *epilogue->residual : at::Tensor())},
                by_aten, by_kernels);
  return args.result(run());
}

at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias, const ForwardParameters& parameters) {
  const auto args = check_forward(op, input, weight, bias, parameters, op.name);
  return compute(args, input, weight, bias, nullptr);
}

at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                         const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                         const ops::OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  const Epilogue epilogue(op, scale, shift, residual, activation, activation_arguments);
  const auto args = check_fused(op, input, weight, bias, parameters, epilogue);
  return compute(args, input, weight, bias, &epilogue);
}

// The gradient of the input; `x`, the input, may be undefined.
auto prepare_dgrad(const Conv2dArguments& args, const at::Tensor& dy, const at::Tensor& weight,
                   const at::Tensor& x) {
  const auto problem = make_problem(args, {}, weight, dy);
  const auto by_aten = [=, &args](Selection&) { return aten::dgrad(args, dy, weight, x); };
  const auto by_kernels = [=, &args](const Family& family, const Plan& plan) {
    const at::Tensor grad_input = empty_result(args.input_size(), dy, args.memory_format);
    Operands operands{.filter = weight.const_data_ptr(),
                      .output = dy.const_data_ptr(),
                      .result = grad_input.mutable_data_ptr()};
    launch(family, plan, operands);
    return grad_input;
  };
  return Run(problem, {.direction = Direction::kDgrad, .is_aligned = begin_at_16_bytes(dy, weight)},
             by_aten, by_kernels);
}

// Both gradients by one pass; the second is undefined unless it is asked for.
auto prepare_wgrad(const Conv2dArguments& args, const at::Tensor& dy, const at::Tensor& x,
                   bool with_bias) {
  const auto problem = make_problem(args, x, {}, dy);
  using Gradients = std::tuple<at::Tensor, at::Tensor>;
  const auto by_aten = [=, &args](Selection&) -> Gradients {
    if (with_bias) return aten::wgrad_bias(args, dy, x);
    return {aten::wgrad(args, dy, x), at::Tensor()};
  };
  const auto by_kernels = [=, &args](const Family& family, const Plan& plan) -> Gradients {
    const at::Tensor grad_weight = empty_result(args.weight_size(), x, args.memory_format);
    const at::Tensor grad_bias =
        with_bias ? empty_result(args.k, x, at::MemoryFormat::Contiguous) : at::Tensor();
    Operands operands{.input = x.const_data_ptr(),
                      .output = dy.const_data_ptr(),
                      .result = grad_weight.mutable_data_ptr(),
                      .grad_bias = with_bias ? grad_bias.mutable_data_ptr() : nullptr};
    launch(family, plan, operands);
    return {grad_weight, grad_bias};
  };
  return Run(problem,
             {.direction = Direction::kWgrad,
              .with_bias = with_bias,
              .is_aligned = begin_at_16_bytes(dy, x)},
             by_aten, by_kernels);
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        SymIntArrayRef input_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_dgrad(grad_output, weight, input_size, parameters, memory_format);
  const c10::DeviceGuard device(grad_output.device());
  const auto run = prepare_dgrad(args, args.batch(grad_output), weight, {});
  return args.unbatch(run());
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format);
  const c10::DeviceGuard device(input.device());
  const auto run = prepare_wgrad(args, args.batch(grad_output), args.batch(input), false);
  return std::get<0>(run());
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& parameters,
                                                     ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format,
                                "haloconv::conv2d_wgrad_bias");
  const c10::DeviceGuard device(input.device());
  return prepare_wgrad(args, args.batch(grad_output), args.batch(input), true)();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    const Conv2dParameters& parameters, bool with_bias, ops::OptionalFormat input_format,
    ops::OptionalFormat weight_format) {
  const auto args =
      check_backward(grad_output, input, weight, parameters, input_format, weight_format);
  const c10::DeviceGuard device(input.device());
  const at::Tensor dy = args.dgrad.batch(grad_output);
  const at::Tensor x = args.dgrad.batch(input);
  const auto dgrad = prepare_dgrad(args.dgrad, dy, weight, x);
  const auto wgrad = prepare_wgrad(args.wgrad, dy, x, with_bias);
  at::Tensor grad_input, grad_weight, grad_bias;
  if (dgrad.is_aten() && wgrad.is_aten()) {
    std::tie(grad_input, grad_weight, grad_bias) = aten::backward(args, dy, x, weight, with_bias);
  } else {
    grad_input = dgrad();
    std::tie(grad_weight, grad_bias) = wgrad();
  }
  return {args.dgrad.unbatch(grad_input), grad_weight, grad_bias};
}

std::string explain(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                    const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                    c10::string_view direction_name) {
  const auto args = check_forward(op, input, weight, bias, parameters, op.explain);
  const Direction direction = check_direction(op, direction_name);
  const c10::DeviceGuard device(input.device());
  const at::Tensor x = args.operand(input), none;
  auto problem =
      make_problem(args, op.transposed ? none : x, args.filters(weight), op.transposed ? x : none);
  // The result is dense, however the tensor lies that is given in its place.
  Conv2dProblem dense = problem;
  dense.set_dense_strides(args.memory_format == at::MemoryFormat::ChannelsLast);
  if (direction_name == name_of(Direction::kDgrad)) {
    (op.transposed ? problem.output : problem.input) = op.transposed ? dense.output : dense.input;
  } else if (direction == Direction::kWgrad) {
    problem.filter = dense.filter;
  }
  std::ostringstream text;
  const Computation computation{
      .direction = direction,
      .with_bias = direction == Direction::kWgrad && !op.transposed && is_given(bias),
      .is_aligned = begin_at_16_bytes(x, weight)};
  const Request request = make_request(problem, computation);
  const Choice choice = choose_here(request, forced_implementation());
  text << direction << ' ' << problem << '\n' << "chip: " << request.chip << '\n' << choice;
  auto timed = wants_the_fastest() ? timed_candidate(problem, computation) : std::nullopt;
  if (timed) text << "timed: " << *timed << '\n';
  if (!choice.candidates.empty()) {
    text << describe_rounding(request, timed ? *timed : choice.candidates.front());
  }
  return text.str();
}

HALOCONV_IMPLEMENT(CUDA, m) {
  for_each_forward_op([&]<const ForwardOp & kOp>() {
    m.impl(kOp.name, bound<kOp, forward>);
    m.impl(kOp.fused, bound<kOp, forward_fused>);
    m.impl(kOp.explain, bound<kOp, explain>);
  });
  m.impl("conv2d_dgrad", unpacked<conv2d_dgrad>);
  m.impl("conv2d_wgrad", unpacked<conv2d_wgrad>);
  m.impl("conv2d_wgrad_bias", unpacked<conv2d_wgrad_bias>);
  m.impl("conv2d_backward", unpacked<conv2d_backward>);
}

}  // namespace
}  // namespace haloconv
