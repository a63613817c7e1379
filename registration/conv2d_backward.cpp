// conv2d_backward, what a backward pass wants: the gradients of conv2d_dgrad and conv2d_wgrad by
// one call, so that ATen is called once where it computes both. Its kernels are the devices' own;
// everywhere else, where it is differentiated too, it is those two operators.
#include <torch/csrc/autograd/functions/utils.h>

#include "registration/conv2d_ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;
using torch::autograd::isFwGradDefined;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void check_rank(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.dim() >= 3, "haloconv::conv2d_backward: expected ", name,
              " to be 4-D, or 3-D without the batch, but got a tensor of size ",
              tensor.sym_sizes());
}

Gradients by_two_operators(const at::Tensor& grad_output, const at::Tensor& input,
                           const at::Tensor& weight, SymIntArrayRef stride, SymIntArrayRef padding,
                           SymIntArrayRef dilation, SymInt groups, bool with_bias,
                           ops::OptionalFormat input_format, ops::OptionalFormat weight_format) {
  check_rank("input", input);
  check_rank("weight", weight);
  const auto input_size = input.sym_sizes().slice(input.dim() - 2);
  const auto kernel_size = weight.sym_sizes().slice(weight.dim() - 2);
  Gradients gradients;
  auto& [grad_input, grad_weight, grad_bias] = gradients;
  grad_input = ops::conv2d_dgrad(grad_output, weight, input_size, stride, padding, dilation, groups,
                                 input_format);
  if (with_bias) {
    std::tie(grad_weight, grad_bias) = ops::conv2d_wgrad_bias(
        grad_output, input, kernel_size, stride, padding, dilation, groups, weight_format);
  } else {
    grad_weight = ops::conv2d_wgrad(grad_output, input, kernel_size, stride, padding, dilation,
                                    groups, weight_format);
  }
  return gradients;
}

Gradients with_autograd(const at::Tensor& grad_output, const at::Tensor& input,
                        const at::Tensor& weight, SymIntArrayRef stride, SymIntArrayRef padding,
                        SymIntArrayRef dilation, SymInt groups, bool with_bias,
                        ops::OptionalFormat input_format, ops::OptionalFormat weight_format) {
  if (torch::autograd::compute_requires_grad(grad_output, input, weight) ||
      isFwGradDefined(grad_output) || isFwGradDefined(input) || isFwGradDefined(weight)) {
    return by_two_operators(grad_output, input, weight, stride, padding, dilation,
                            std::move(groups), with_bias, input_format, weight_format);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return ops::conv2d_backward(grad_output, input, weight, stride, padding, dilation,
                              std::move(groups), with_bias, input_format, weight_format);
}

HALOCONV_IMPLEMENT(CompositeImplicitAutograd, m) { m.impl("conv2d_backward", &by_two_operators); }
HALOCONV_IMPLEMENT(FuncTorchBatched, m) { m.impl("conv2d_backward", &by_two_operators); }
HALOCONV_IMPLEMENT(Autograd, m) { m.impl("conv2d_backward", &with_autograd); }

}  // namespace
}  // namespace haloconv
