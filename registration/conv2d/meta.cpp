// Meta kernels: results without elements, of exactly the sizes and strides that real ones have.
#include <ATen/ops/empty.h>

#include "registration/conv2d/checks.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

using c10::SymIntArrayRef;

at::Tensor empty(SymIntArrayRef size, at::ScalarType dtype, at::MemoryFormat format) {
  return at::empty_symint(size, at::device(at::kMeta).dtype(dtype).memory_format(format));
}

at::Tensor empty_result(const Conv2dArguments& args, const at::Tensor& like) {
  return args.result(empty(args.transposed ? args.input_size() : args.output_size(),
                           like.scalar_type(), args.memory_format));
}

at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias, const ForwardParameters& parameters) {
  return empty_result(check_forward(op, input, weight, bias, parameters, op.name), input);
}

at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                         const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                         const ops::OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  const Epilogue epilogue(op, scale, shift, residual, activation, activation_arguments);
  const at::Tensor output =
      empty_result(check_fused(op, input, weight, bias, parameters, epilogue), input);
  return Epilogue::keeps_type(output) ? output : activate(epilogue.activation, output);
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        SymIntArrayRef input_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_dgrad(grad_output, weight, input_size, parameters, memory_format);
  return args.unbatch(empty(args.input_size(), grad_output.scalar_type(), args.memory_format));
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format);
  return empty(args.weight_size(), grad_output.scalar_type(), args.memory_format);
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& parameters,
                                                     ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format,
                                "haloconv::conv2d_wgrad_bias");
  const at::ScalarType dtype = grad_output.scalar_type();
  return {empty(args.weight_size(), dtype, args.memory_format),
          empty({args.k}, dtype, at::MemoryFormat::Contiguous)};
}

std::string explain(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                    const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                    c10::string_view direction) {
  check_forward(op, input, weight, bias, parameters, op.explain);
  check_direction(op, direction);
  return "meta: nothing is computed, only the size and the strides of the result\n";
}

HALOCONV_IMPLEMENT(Meta, m) {
  for_each_forward_op([&]<const ForwardOp & kOp>() {
    m.impl(kOp.name, bound<kOp, forward>);
    m.impl(kOp.fused, bound<kOp, forward_fused>);
    m.impl(kOp.explain, bound<kOp, explain>);
  });
  m.impl("conv2d_dgrad", unpacked<conv2d_dgrad>);
  m.impl("conv2d_wgrad", unpacked<conv2d_wgrad>);
  m.impl("conv2d_wgrad_bias", unpacked<conv2d_wgrad_bias>);
}

}  // namespace
}  // namespace haloconv
