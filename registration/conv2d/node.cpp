#include "registration/conv2d/node.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include "registration/conv2d/aten.h"

namespace haloconv {

using c10::SymInt;
using c10::SymIntArrayRef;
using torch::autograd::variable_list;

namespace {

at::MemoryFormat format_if(bool channels_last) {
  return channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

// The derivative of a complex product takes the other factor's conjugate.
at::Tensor factor(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_complex() ? tensor.conj() : tensor;
}

}  // namespace

NodePointer<torch::autograd::Node> make_conv2d_node(Role result,
                                                    const std::array<at::Tensor, 3>& tensors,
                                                    const ops::OptionalTensor& bias,
                                                    const ForwardParameters& parameters,
                                                    bool has_rows) {
  using torch::autograd::SavedVariable;
  const auto node = RuleNode<Conv2dRule>::create();
  Conv2dRule& rule = node->rule;
  rule.result = result;
  rule.has_rows = has_rows;
  const auto [first, second] = rule.operands();
  node->set_next_edges(torch::autograd::collect_next_edges(tensors[first], tensors[second], bias));
  if (node->should_compute_output(1)) {
    node->saved[0] = SavedVariable(tensors[first], /*is_output=*/false);
  }
  if (node->should_compute_output(0)) {
    node->saved[1] = SavedVariable(tensors[second], /*is_output=*/false);
  }
  rule.parameters = KeptParameters(parameters);
  const at::Tensor input = rule.with_rows(tensors[kInput]);
  const at::Tensor weight = rule.with_rows(tensors[kWeight]);
  rule.input_size = {input.sym_size(-2), input.sym_size(-1)};
  rule.weight_size = weight.sym_sizes().vec();
  const bool weight_is_channels_last = is_channels_last(weight);
  rule.weight_format = format_if(weight_is_channels_last);
  rule.input_format = format_if(weight_is_channels_last || is_channels_last(input));
  return node;
}

KeptParameters conv2d_parameters(const Conv2dArguments& args) {
  return KeptParameters({{args.stride, args.padding, args.dilation, args.groups}, {}});
}

PaddedTransposed::PaddedTransposed(const Conv2dArguments& args, const at::Tensor& given) {
  const auto& [rows, columns] = args.zeros;
  const bool has_rows = args.pixel_dims == 2;
  const std::array<SymInt, 4> sides = {0, columns, 0, rows};
  input = at::constant_pad_nd_symint(given, SymIntArrayRef(sides).slice(0, has_rows ? 4 : 2), 0);
  const std::array<SymInt, 2> sizes = {args.h, args.w}, taken = {args.p, args.q},
                              kernel = {args.r, args.s};
  for (size_t axis = has_rows ? 0 : 1; axis < 2; ++axis) {
    const SymInt &before = args.padding[2 * axis], &after = args.padding[2 * axis + 1];
    parameters.stride.push_back(args.stride[axis]);
    parameters.dilation.push_back(args.dilation[axis]);
    parameters.padding.insert(parameters.padding.end(), {before, after});
    parameters.output_padding.push_back(sizes[axis] + before + after - 1 -
                                        (taken[axis] - 1) * args.stride[axis] -
                                        args.dilation[axis] * (kernel[axis] - 1));
  }
  parameters.groups = args.groups;
}

NodePointer<torch::autograd::Node> make_forward_node(const ForwardOp& op, const at::Tensor& input,
                                                     const at::Tensor& weight,
                                                     const ops::OptionalTensor& bias,
                                                     const ForwardParameters& parameters,
                                                     const at::Tensor& result) {
  const bool has_rows = op.pixel_dims == 2;
  if (!op.transposed && has_rows) {
    return make_conv2d_node(kOutput, {input, weight, result}, bias, parameters);
  }
  const KeptParameters conv2d =
      conv2d_parameters(check_forward(op, input, weight, bias, parameters, op.name));
  return op.transposed ? make_conv2d_node(kInput, {result, weight, input}, bias, conv2d, has_rows)
                       : make_conv2d_node(kOutput, {input, weight, result}, bias, conv2d, has_rows);
}

at::Tensor Conv2dRule::with_rows(const at::Tensor& tensor) const {
  return has_rows || !tensor.defined() ? tensor : tensor.unsqueeze(-2);
}

at::Tensor Conv2dRule::without_rows(const at::Tensor& tensor) const {
  return has_rows || !tensor.defined() ? tensor : tensor.squeeze(-2);
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
  tensors[first] = with_rows(factor(saved[0]));
  tensors[second] = with_rows(factor(saved[1]));
  tensors[result] = with_rows(incoming[0]);
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
      if (wants_bias) {
        results[2] = aten::sum_over_pixels(tensors[kInput]);
      }
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
  results[0] = without_rows(results[0]);
  results[1] = without_rows(results[1]);
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
    gradients[2] = aten::sum_over_pixels(grad_output);
  }
}

}  // namespace haloconv
