// Autograd kernels of batch norm. What is differentiated further, or in forward mode, is computed
// by ATen's operators, which are differentiable themselves.
#include <ATen/TensorOperators.h>

#include <string>

#include "registration/batch_norm/aten.h"
#include "registration/batch_norm/checks.h"
#include "registration/conv2d/epilogue.h"
#include "registration/library.h"
#include "registration/torch_compat/autograd.h"
#include "registration/torch_compat/rule_node.h"
#include "registration/torch_compat/version_counter.h"

namespace haloconv {
namespace {

using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

ops::OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? ops::OptionalTensor(tensor) : std::nullopt;
}

// The gradients of input, weight, bias and residual.
struct BatchNormRule {
  static constexpr const char* kFunction = "HaloconvBatchNormAct";
  static constexpr size_t kSaved = 6, kEdges = 4;
  using Saved = std::array<at::Tensor, kSaved>;  // input, weight, bias, residual, mean, invstd
  using Wants = std::array<bool, kEdges>;

  std::string name() const { return "HaloconvBatchNormActBackward"; }
  std::array<bool, kSaved> needs(const Wants&) const {
    return {true, true, true, true, true, true};
  }

  variable_list gradients(const variable_list& incoming, const Saved& saved,
                          const Wants& wants) const {
    variable_list results(kEdges);
    const at::Tensor& gradient = incoming[0];
    if (!gradient.defined()) return results;
    // Without an activation the gradient goes to the residual as it is.
    const bool passes_on = activation == "none";
    if (wants[3] && passes_on) results[3] = gradient;
    if (!wants[0] && !wants[1] && !wants[2] && passes_on) return results;
    const auto& [input, weight, bias, residual, mean, invstd] = saved;
    const auto [grad_input, grad_residual, grad_weight, grad_bias] = ops::batch_norm_act_backward(
        gradient, input, optional(weight), optional(bias), mean, invstd, optional(residual), {},
        eps, activation, wants[3] && !passes_on);
    if (wants[0]) results[0] = grad_input;
    if (wants[1]) results[1] = grad_weight.to(weight.scalar_type());
    if (wants[2]) results[2] = grad_bias.to(bias.scalar_type());
    if (grad_residual.defined()) results[3] = grad_residual;
    return results;
  }

  template <class Self, class Visit>
  static void for_each_value(Self& self, Visit visit) {
    visit(self.activation);
    visit(self.eps);
  }

  std::string activation;
  double eps = 0;
};

void set_history(const ops::BatchNormResults& results, const at::Tensor& input,
                 const ops::OptionalTensor& weight, const ops::OptionalTensor& bias,
                 const ops::OptionalTensor& residual, double eps, c10::string_view activation) {
  const auto& [result, mean, invstd] = results;
  const auto node = RuleNode<BatchNormRule>::create();
  node->set_next_edges(torch::autograd::collect_next_edges(input, weight, bias, residual));
  node->rule.activation = std::string(activation);
  node->rule.eps = eps;
  const auto keep = [&](size_t i, const ops::OptionalTensor& tensor) {
    if (is_given(tensor)) node->saved[i] = SavedVariable(*tensor, /*is_output=*/false);
  };
  keep(0, input);
  keep(1, weight);
  keep(2, bias);
  if (activation != "none") keep(3, residual);
  keep(4, mean);
  keep(5, invstd);
  torch::autograd::set_history(result, node);
}

ops::BatchNormResults batch_norm_act(const at::Tensor& input, const ops::OptionalTensor& weight,
                                     const ops::OptionalTensor& bias,
                                     const ops::OptionalTensor& running_mean,
                                     const ops::OptionalTensor& running_var,
                                     const ops::OptionalTensor& residual, double momentum,
                                     double eps, c10::string_view activation) {
  if (isFwGradDefined(input) || isFwGradDefined(weight) || isFwGradDefined(bias) ||
      isFwGradDefined(residual)) {
    const Activation checked =
        check_batch_norm(input, weight, bias, running_mean, running_var, residual, activation);
    return aten::batch_norm(input, weight, bias, running_mean, running_var, residual, momentum, eps,
                            checked);
  }
  const auto results = [&] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return ops::batch_norm_act(input, weight, bias, running_mean, running_var, residual, momentum,
                               eps, activation);
  }();
  for (const auto& running : {running_mean, running_var}) {
    if (is_given(running)) count_change(*running);
  }
  if (compute_requires_grad(input, weight, bias, residual)) {
    set_history(results, input, weight, bias, residual, eps, activation);
  }
  return results;
}

ops::BatchNormGradients batch_norm_act_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const ops::OptionalTensor& weight,
    const ops::OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
    const ops::OptionalTensor& residual, const ops::OptionalTensor& second_grad_output, double eps,
    c10::string_view activation, bool with_residual) {
  if (compute_requires_grad(grad_output, input, weight, bias, residual, second_grad_output) ||
      isFwGradDefined(grad_output) || isFwGradDefined(input) || isFwGradDefined(weight) ||
      isFwGradDefined(bias) || isFwGradDefined(residual) || isFwGradDefined(second_grad_output)) {
    const Activation checked =
        check_batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                  second_grad_output, activation, with_residual);
    return aten::batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                     second_grad_output, eps, checked, with_residual);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return ops::batch_norm_act_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                      second_grad_output, eps, activation, with_residual);
}

HALOCONV_IMPLEMENT(Autograd, m) {
  m.impl("batch_norm_act", &batch_norm_act);
  m.impl("batch_norm_act_backward", &batch_norm_act_backward);
}

}  // namespace
}  // namespace haloconv
