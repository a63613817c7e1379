// Autograd kernels: each calls the operator below autograd, then records the backward node and, in
// forward mode, the result's tangent.
#include <ATen/TensorOperators.h>

#include "registration/conv2d/aten.h"
#include "registration/conv2d/node.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"
#include "registration/torch_compat/autograd.h"

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;
using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;
using torch::autograd::set_history;

template <class Function>
auto below_autograd(Function f) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return f();
}

// The tangent of f(a, b), which is linear in both; undefined where neither has a tangent.
template <class Function>
at::Tensor tangent(const at::Tensor& a, const at::Tensor& b, Function f) {
  at::Tensor sum;
  if (isFwGradDefined(a)) {
    sum = f(a._fw_grad(0), b._fw_primal(0));
  }
  if (isFwGradDefined(b)) {
    const at::Tensor term = f(a._fw_primal(0), b._fw_grad(0));
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

void set_tangent(const at::Tensor& result, const at::Tensor& tangent) {
  if (tangent.defined()) {
    result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  }
}

// Whether a transposed result may go on beyond the last pixel's taps and stride, so that zeros must
// follow the input. Other arguments are checked below autograd, by kernels that say which kinds of
// tensors they take.
bool may_add_zeros(const ForwardParameters& parameters) {
  for (const SymInt& added : parameters.output_padding) {
    for (const SymInt& stride : parameters.stride) {
      if (!TORCH_GUARD_OR_FALSE(added.sym_lt(stride))) return true;
    }
  }
  return false;
}

at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias, const ForwardParameters& parameters) {
  if (op.transposed && may_add_zeros(parameters)) {
    const auto args = check_forward(op, input, weight, bias, parameters, op.name);
    if (args.has_zeros) {
      const PaddedTransposed padded(args, input);
      return ops::forward(op, padded.input, weight, bias, padded.parameters);
    }
  }
  const auto call = [&](const at::Tensor& x, const at::Tensor& w, const ops::OptionalTensor& b) {
    return ops::forward(op, x, w, b, parameters);
  };
  const at::Tensor output = below_autograd([&] { return call(input, weight, bias); });
  if (compute_requires_grad(input, weight, bias)) {
    set_history(output, make_forward_node(op, input, weight, bias, parameters, output));
  }
  at::Tensor sum =
      tangent(input, weight, [&](const auto& x, const auto& w) { return call(x, w, {}); });
  // An output without channels, which an input without channels has, does not depend on the bias.
  const SymInt channels = output.sym_size(-1 - op.pixel_dims);
  if (isFwGradDefined(bias) && !TORCH_GUARD_OR_FALSE(channels.sym_eq(0))) {
    const at::Tensor term = add_pixel_dims(bias->_fw_grad(0), op.pixel_dims);
    sum = sum.defined() ? sum + term : term.expand_as(output);
  }
  set_tangent(output, sum);
  return output;
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        SymIntArrayRef input_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto call = [&](const at::Tensor& g, const at::Tensor& w) {
    return ops::conv2d_dgrad(g, w, input_size, parameters, memory_format);
  };
  const at::Tensor grad_input = below_autograd([&] { return call(grad_output, weight); });
  if (compute_requires_grad(grad_output, weight)) {
    set_history(grad_input,
                make_conv2d_node(kInput, {grad_input, weight, grad_output}, {}, {parameters, {}}));
  }
  set_tangent(grad_input, tangent(grad_output, weight, call));
  return grad_input;
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto call = [&](const at::Tensor& g, const at::Tensor& x) {
    return ops::conv2d_wgrad(g, x, kernel_size, parameters, memory_format);
  };
  const at::Tensor grad_weight = below_autograd([&] { return call(grad_output, input); });
  if (compute_requires_grad(grad_output, input)) {
    set_history(grad_weight,
                make_conv2d_node(kWeight, {input, grad_weight, grad_output}, {}, {parameters, {}}));
  }
  set_tangent(grad_weight, tangent(grad_output, input, call));
  return grad_weight;
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& parameters,
                                                     ops::OptionalFormat memory_format) {
  const auto [grad_weight, grad_bias] = below_autograd([&] {
    return ops::conv2d_wgrad_bias(grad_output, input, kernel_size, parameters, memory_format);
  });
  if (compute_requires_grad(grad_output, input)) {
    const auto node =
        make_conv2d_node(kWeight, {input, grad_weight, grad_output}, {}, {parameters, {}});
    set_history(grad_weight, node);
    set_history(grad_bias, node);
  }
  set_tangent(grad_weight, tangent(grad_output, input, [&](const auto& g, const auto& x) {
                return ops::conv2d_wgrad(g, x, kernel_size, parameters, memory_format);
              }));
  if (isFwGradDefined(grad_output)) {
    set_tangent(grad_bias, aten::sum_over_pixels(grad_output._fw_grad(0)));
  }
  return {grad_weight, grad_bias};
}

HALOCONV_IMPLEMENT(Autograd, m) {
  for_each_forward_op([&]<const ForwardOp & kOp>() { m.impl(kOp.name, bound<kOp, forward>); });
  m.impl("conv2d_dgrad", unpacked<conv2d_dgrad>);
  m.impl("conv2d_wgrad", unpacked<conv2d_wgrad>);
  m.impl("conv2d_wgrad_bias", unpacked<conv2d_wgrad_bias>);
}

}  // namespace
}  // namespace haloconv
