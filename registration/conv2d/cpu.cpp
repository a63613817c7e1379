// CPU kernels: the arguments are checked, and ATen computes.
#include "conv2d/choice.h"
#include "conv2d/families.h"
#include "registration/conv2d/aten.h"
#include "registration/conv2d/checks.h"
#include "registration/conv2d/force.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

using c10::SymIntArrayRef;

void check_forced(const char* op) {
  const std::string_view forced = forced_implementation();
  TORCH_CHECK(forced.empty() || forced == kAten, op, ": the forced implementation, ", forced,
              ", declines a tensor on the CPU: its kernels are CUDA kernels");
}

at::Tensor compute(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias) {
  const auto computed = args.transposed ? aten::transposed : aten::fprop;
  return args.result(computed(args, args.operand(input), args.filters(weight), bias));
}

at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias, const ForwardParameters& parameters) {
  const auto args = check_forward(op, input, weight, bias, parameters, op.name);
  check_forced(op.name);
  return compute(args, input, weight, bias);
}

at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                         const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                         const ops::OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  const Epilogue epilogue(op, scale, shift, residual, activation, activation_arguments);
  const auto args = check_fused(op, input, weight, bias, parameters, epilogue);
  check_forced(op.fused);
  const at::Tensor output = compute(args, input, weight, bias);
  if (!Epilogue::keeps_type(output)) return epilogue.apply(output);
  epilogue.apply_in_place(output);
  return output;
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        SymIntArrayRef input_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_dgrad(grad_output, weight, input_size, parameters, memory_format);
  check_forced("haloconv::conv2d_dgrad");
  return args.unbatch(aten::dgrad(args, args.batch(grad_output), weight));
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format);
  check_forced("haloconv::conv2d_wgrad");
  return aten::wgrad(args, args.batch(grad_output), args.batch(input));
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& parameters,
                                                     ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format,
                                "haloconv::conv2d_wgrad_bias");
  check_forced("haloconv::conv2d_wgrad_bias");
  return aten::wgrad_bias(args, args.batch(grad_output), args.batch(input));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    const Conv2dParameters& parameters, bool with_bias, ops::OptionalFormat input_format,
    ops::OptionalFormat weight_format) {
  const auto args =
      check_backward(grad_output, input, weight, parameters, input_format, weight_format);
  check_forced("haloconv::conv2d_backward");
  const Conv2dArguments& of_input = args.dgrad;
  auto [grad_input, grad_weight, grad_bias] =
      aten::backward(args, of_input.batch(grad_output), of_input.batch(input), weight, with_bias);
  return {of_input.unbatch(grad_input), grad_weight, grad_bias};
}

std::string explain(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                    const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                    c10::string_view direction) {
  check_forward(op, input, weight, bias, parameters, op.explain);
  check_direction(op, direction);
  constexpr const char* kReason =
      ": declined, its kernels are CUDA kernels and the tensors are on the CPU\n";
  std::string text = "implementation: aten\n";
  for (const Family* family : families()) text.append("  ").append(family->name).append(kReason);
  return text + "  aten: ATen's convolution on the CPU\n";
}

HALOCONV_IMPLEMENT(CPU, m) {
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
