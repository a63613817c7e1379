// conv2d_backward, which a backward pass calls: the gradients of conv2d_dgrad and conv2d_wgrad by
// one call, so that ATen is called once if it computes both. The devices' kernels are in the
// devices' files. When it is differentiated, batched or given Meta tensors, it is those two
// operators.
#include <ATen/ops/zeros.h>

#include <array>

#include "registration/conv2d/checks.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"
#include "registration/torch_compat/autograd.h"

namespace haloconv {
namespace {

using c10::SymInt;
using torch::autograd::isFwGradDefined;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Gradients by_two_operators(const at::Tensor& grad_output, const at::Tensor& input,
                           const at::Tensor& weight, const Conv2dParameters& parameters,
                           bool with_bias, ops::OptionalFormat input_format,
                           ops::OptionalFormat weight_format) {
  const Conv2dArguments args =
      check_backward(grad_output, input, weight, parameters, input_format, weight_format).dgrad;
  const std::array<SymInt, 2> input_size = {args.h, args.w}, kernel_size = {args.r, args.s};
  Gradients gradients;
  auto& [grad_input, grad_weight, grad_bias] = gradients;
  grad_input = ops::conv2d_dgrad(grad_output, weight, input_size, parameters, input_format);
  if (TORCH_GUARD_OR_FALSE(args.c.sym_eq(0))) {  // conv2d_wgrad does not know how many filters
    grad_weight = at::zeros_symint(weight.sym_sizes(), weight.options());
    if (with_bias) grad_bias = at::zeros_symint({args.k}, weight.options());
  } else if (with_bias) {
    std::tie(grad_weight, grad_bias) =
        ops::conv2d_wgrad_bias(grad_output, input, kernel_size, parameters, weight_format);
  } else {
    grad_weight = ops::conv2d_wgrad(grad_output, input, kernel_size, parameters, weight_format);
  }
  return gradients;
}

Gradients with_autograd(const at::Tensor& grad_output, const at::Tensor& input,
                        const at::Tensor& weight, const Conv2dParameters& parameters,
                        bool with_bias, ops::OptionalFormat input_format,
                        ops::OptionalFormat weight_format) {
  if (torch::autograd::compute_requires_grad(grad_output, input, weight) ||
      isFwGradDefined(grad_output) || isFwGradDefined(input) || isFwGradDefined(weight)) {
    return by_two_operators(grad_output, input, weight, parameters, with_bias, input_format,
                            weight_format);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return ops::conv2d_backward(grad_output, input, weight, parameters, with_bias, input_format,
                              weight_format);
}

HALOCONV_IMPLEMENT(Meta, m) { m.impl("conv2d_backward", unpacked<by_two_operators>); }
HALOCONV_IMPLEMENT(FuncTorchBatched, m) { m.impl("conv2d_backward", unpacked<by_two_operators>); }
HALOCONV_IMPLEMENT(Autograd, m) { m.impl("conv2d_backward", unpacked<with_autograd>); }

}  // namespace
}  // namespace haloconv
