#include "registration/conv2d_node.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace haloconv {

using c10::SymInt;
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
at::Tensor unpack(const torch::autograd::SavedVariable& saved) {
  const at::Tensor tensor = saved.unpack();
  return tensor.is_complex() ? tensor.conj() : tensor;
}

}  // namespace

at::Tensor sum_over_pixels(const at::Tensor& grad_output) {
  return grad_output.dim() == 4 ? grad_output.sum({0, 2, 3}) : grad_output.sum({1, 2});
}

std::shared_ptr<Conv2dNode> Conv2dNode::create(Role result, const Tensors& tensors,
                                               const ops::OptionalTensor& bias,
                                               Parameters parameters) {
  const std::shared_ptr<Conv2dNode> node(new Conv2dNode, torch::autograd::deleteNode);
  node->result_ = result;
  const auto [first, second] = node->operands();
  node->set_next_edges(torch::autograd::collect_next_edges(tensors[first], tensors[second], bias));
  if (node->should_compute_output(1)) {
    node->saved_[0] = torch::autograd::SavedVariable(tensors[first], /*is_output=*/false);
  }
  if (node->should_compute_output(0)) {
    node->saved_[1] = torch::autograd::SavedVariable(tensors[second], /*is_output=*/false);
  }
  node->parameters_ = std::move(parameters);
  const SymIntArrayRef input_size = tensors[kInput].sym_sizes();
  node->input_size_ = input_size.slice(input_size.size() - 2).vec();
  node->weight_size_ = tensors[kWeight].sym_sizes().vec();
  const bool weight_is_channels_last = is_channels_last(tensors[kWeight]);
  node->weight_format_ = format_if(weight_is_channels_last);
  node->input_format_ = format_if(weight_is_channels_last || is_channels_last(tensors[kInput]));
  return node;
}

std::string Conv2dNode::name() const {
  return result_ == kOutput  ? "HaloconvConv2dBackward"
         : result_ == kInput ? "HaloconvConv2dDgradBackward"
                             : "HaloconvConv2dWgradBackward";
}

std::array<Role, 2> Conv2dNode::operands() const {
  return result_ == kOutput  ? std::array{kInput, kWeight}
         : result_ == kInput ? std::array{kOutput, kWeight}
                             : std::array{kOutput, kInput};
}

variable_list Conv2dNode::apply(variable_list&& grads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Derivatives are computed in the dtype of the call, as aten's are, wherever backward runs.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  variable_list results(num_outputs());
  const auto [first, second] = operands();
  const bool wants_first = task_should_compute_output(0);
  const bool wants_second = task_should_compute_output(1);

  Tensors tensors;
  tensors[first] = wants_second ? unpack(saved_[0]) : at::Tensor();
  tensors[second] = wants_first ? unpack(saved_[1]) : at::Tensor();
  tensors[result_] = grads[0];
  ops::OptionalTensor grad_grad_bias;
  if (grads.size() == 2 && grads[1].defined()) {
    grad_grad_bias = grads[1];
    if (!grads[0].defined()) {
      tensors[result_] = at::zeros_symint(weight_size_, grads[1].options());
    }
  }
  if (!tensors[result_].defined()) {
    return results;
  }

  switch (result_) {
    case kOutput:
      if (wants_first && wants_second && has_channels()) {
        all_operands_of(tensors, task_should_compute_output(2), results);
        break;
      }
      if (wants_first) {
        results[0] = input_of(tensors);
      }
      weight_and_bias_of(tensors, wants_second, task_should_compute_output(2), results);
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

at::Tensor Conv2dNode::input_of(const Tensors& tensors) const {
  return ops::conv2d_dgrad(tensors[kOutput], tensors[kWeight], input_size_, parameters_.stride,
                           parameters_.padding, parameters_.dilation, parameters_.groups,
                           input_format_);
}

at::Tensor Conv2dNode::output_of(const Tensors& tensors, const ops::OptionalTensor& bias) const {
  return ops::conv2d(tensors[kInput], tensors[kWeight], bias, parameters_.stride,
                     parameters_.padding, parameters_.dilation, parameters_.groups);
}

bool Conv2dNode::has_channels() const { return !TORCH_GUARD_OR_FALSE(weight_size_[1].sym_eq(0)); }

void Conv2dNode::all_operands_of(const Tensors& tensors, bool wants_bias,
                                 variable_list& grads) const {
  at::Tensor grad_bias;
  std::tie(grads[0], grads[1], grad_bias) = ops::conv2d_backward(
      tensors[kOutput], tensors[kInput], tensors[kWeight], parameters_.stride, parameters_.padding,
      parameters_.dilation, parameters_.groups, wants_bias, input_format_, weight_format_);
  if (wants_bias) grads[2] = grad_bias;
}

void Conv2dNode::weight_and_bias_of(const Tensors& tensors, bool wants_weight, bool wants_bias,
                                    variable_list& grads) const {
  const auto& grad_output = tensors[kOutput];
  if (!has_channels()) {
    if (wants_weight) {
      grads[1] = at::zeros_symint(weight_size_, grad_output.options());
    }
    if (wants_bias) {
      grads[2] = at::zeros_symint(weight_size_[0], grad_output.options());
    }
    return;
  }
  const auto kernel_size = SymIntArrayRef(weight_size_).slice(2);
  if (wants_weight && wants_bias) {
    std::tie(grads[1], grads[2]) = ops::conv2d_wgrad_bias(
        grad_output, tensors[kInput], kernel_size, parameters_.stride, parameters_.padding,
        parameters_.dilation, parameters_.groups, weight_format_);
  } else if (wants_weight) {
    grads[1] = ops::conv2d_wgrad(grad_output, tensors[kInput], kernel_size, parameters_.stride,
                                 parameters_.padding, parameters_.dilation, parameters_.groups,
                                 weight_format_);
  } else if (wants_bias) {
    grads[2] = sum_over_pixels(grad_output);
  }
}

void Conv2dNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& saved : saved_) {
    saved.reset_data();
  }
}

}  // namespace haloconv
