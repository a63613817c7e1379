#include "registration/conv2d/node.h"

#include <ATen/ops/zeros.h>

namespace haloconv {

using c10::SymIntArrayRef;
using torch::autograd::variable_list;

namespace {

at::MemoryFormat format_if(bool channels_last) {
  return channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

bool is_channels_last(const at::Tensor& tensor) {
  return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

// The derivative of a complex product takes the other factor's conjugate.
at::Tensor factor(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_complex() ? tensor.conj() : tensor;
}

}  // namespace

at::Tensor sum_over_pixels(const at::Tensor& grad_output) {
  return grad_output.dim() == 4 ? grad_output.sum({0, 2, 3}) : grad_output.sum({1, 2});
}

std::shared_ptr<torch::autograd::Node> make_conv2d_node(Role result,
                                                        const std::array<at::Tensor, 3>& tensors,
                                                        const ops::OptionalTensor& bias,
                                                        const Conv2dParameters& parameters) {
  using torch::autograd::SavedVariable;
  const auto node = RuleNode<Conv2dRule>::create();
  Conv2dRule& rule = node->rule;
  rule.result = result;
  const auto [first, second] = rule.operands();
  node->set_next_edges(torch::autograd::collect_next_edges(tensors[first], tensors[second], bias));
  if (node->should_compute_output(1)) {
    node->saved[0] = SavedVariable(tensors[first], /*is_output=*/false);
  }
  if (node->should_compute_output(0)) {
    node->saved[1] = SavedVariable(tensors[second], /*is_output=*/false);
  }
  rule.parameters = KeptParameters(parameters);
  const SymIntArrayRef input_size = tensors[kInput].sym_sizes();
  rule.input_size = input_size.slice(input_size.size() - 2).vec();
  rule.weight_size = tensors[kWeight].sym_sizes().vec();
  const bool weight_is_channels_last = is_channels_last(tensors[kWeight]);
  rule.weight_format = format_if(weight_is_channels_last);
  rule.input_format = format_if(weight_is_channels_last || is_channels_last(tensors[kInput]));
  return node;
}

std::string Conv2dRule::name() const {
  return result == kOutput  ? "HaloconvConv2dBackward"
         : result == kInput ? "HaloconvConv2dDgradBackward"
                            : "HaloconvConv2dWgradBackward";
}

std::array<Role, 2> Conv2dRule::operands() const {
  return result == kOutput  ? std::array{kInput, kWeight}
         : result == kInput ? std::array{kOutput, kWeight}
                            : std::array{kOutput, kInput};
}

variable_list Conv2dRule::gradients(const variable_list& incoming, const Saved& saved,
                                    const Wants& wants) const {
  variable_list results(kEdges);
  const auto [first, second] = operands();
  const auto [wants_first, wants_second, wants_bias] = wants;

  Tensors tensors;
  tensors[first] = factor(saved[0]);
  tensors[second] = factor(saved[1]);
  tensors[result] = incoming[0];
  ops::OptionalTensor grad_grad_bias;
  if (incoming.size() == 2 && incoming[1].defined()) {
    grad_grad_bias = incoming[1];
    if (!incoming[0].defined()) {
      tensors[result] = at::zeros_symint(weight_size, incoming[1].options());
    }
  }
  if (!tensors[result].defined()) {
    return results;
  }

  switch (result) {
    case kOutput:
      if (wants_first && wants_second && has_channels()) {
        all_operands_of(tensors, wants_bias, results);
        break;
      }
      if (wants_first) {
        results[0] = input_of(tensors);
      }
      weight_and_bias_of(tensors, wants_second, wants_bias, results);
      break;
    case kInput:
      if (wants_first) {
        results[0] = output_of(tensors, {});
      }
      weight_and_bias_of(tensors, wants_second, /*wants_bias=*/false, results);
      break;
    case kWeight:
      if (wants_first) {
        results[0] = output_of(tensors, grad_grad_bias);
      }
      if (wants_second) {
        results[1] = input_of(tensors);
      }
      break;
  }
  return results;
}

at::Tensor Conv2dRule::input_of(const Tensors& tensors) const {
  return ops::conv2d_dgrad(tensors[kOutput], tensors[kWeight], input_size, parameters,
                           input_format);
}

at::Tensor Conv2dRule::output_of(const Tensors& tensors, const ops::OptionalTensor& bias) const {
  return ops::conv2d(tensors[kInput], tensors[kWeight], bias, parameters);
}

bool Conv2dRule::has_channels() const { return !TORCH_GUARD_OR_FALSE(weight_size[1].sym_eq(0)); }

void Conv2dRule::all_operands_of(const Tensors& tensors, bool wants_bias,
                                 variable_list& gradients) const {
  at::Tensor grad_bias;
  std::tie(gradients[0], gradients[1], grad_bias) =
      ops::conv2d_backward(tensors[kOutput], tensors[kInput], tensors[kWeight], parameters,
                           wants_bias, input_format, weight_format);
  if (wants_bias) gradients[2] = grad_bias;
}

void Conv2dRule::weight_and_bias_of(const Tensors& tensors, bool wants_weight, bool wants_bias,
                                    variable_list& gradients) const {
  const auto& grad_output = tensors[kOutput];
  if (!has_channels()) {
    if (wants_weight) {
      gradients[1] = at::zeros_symint(weight_size, grad_output.options());
    }
    if (wants_bias) {
      gradients[2] = at::zeros_symint(weight_size[0], grad_output.options());
    }
    return;
  }
  const auto kernel_size = SymIntArrayRef(weight_size).slice(2);
  if (wants_weight && wants_bias) {
    std::tie(gradients[1], gradients[2]) = ops::conv2d_wgrad_bias(
        grad_output, tensors[kInput], kernel_size, parameters, weight_format);
  } else if (wants_weight) {
    gradients[1] =
        ops::conv2d_wgrad(grad_output, tensors[kInput], kernel_size, parameters, weight_format);
  } else if (wants_bias) {
    gradients[2] = sum_over_pixels(grad_output);
  }
}

}  // namespace haloconv
