// The fused operators' Autograd kernel. For the backward pass, a result is that of a convolution
// whose filters and biases have scale and shift folded in, then a residual and an activation. There
// are two nodes: the convolution's own and one for what follows. Forward mode uses those operators.
#include <ATen/TensorOperators.h>

#include "registration/conv2d/checks.h"
#include "registration/conv2d/node.h"
#include "registration/library.h"
#include "registration/torch_compat/autograd.h"

namespace haloconv {
namespace {

using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A convolution's operands, with their derivatives.
struct Convolution {
  const ForwardOp& op;
  at::Tensor input, weight;
  ops::OptionalTensor bias;
  ForwardParameters parameters;

  // With scale and shift folded into weight and bias.
  void fold(const Epilogue& epilogue) {
    if (is_given(epilogue.scale)) {
      weight = weight * per_filter(*epilogue.scale);
      if (is_given(bias)) bias = *bias * *epilogue.scale;
    }
    if (is_given(epilogue.shift)) {
      bias = is_given(bias) ? *bias + *epilogue.shift : *epilogue.shift;
    }
  }

  // An edge to the convolution's node, or to nowhere if no operand needs a gradient.
  torch::autograd::Edge edge(const at::Tensor& output) const {
    if (!compute_requires_grad(input, weight, bias)) return {};
    const auto node = make_forward_node(op, input, weight, bias, parameters, output);
    return {node, node->add_input_metadata(output)};
  }

 private:
  // A value for each channel of the result as a factor of the filters. Those of a transposed
  // convolution, (c, k/groups, r, s), repeat the channels of a group for each of its c/groups.
  at::Tensor per_filter(const at::Tensor& values) const {
    at::Tensor factor = values.unsqueeze(-1);
    if (op.transposed) {
      const c10::SymInt& groups = parameters.groups;
      factor = values.view_symint({groups, 1, weight.sym_size(1)})
                   .expand_symint({groups, weight.sym_size(0) / groups, weight.sym_size(1)})
                   .reshape_symint({weight.sym_size(0), weight.sym_size(1)});
    }
    return add_pixel_dims(factor, op.pixel_dims);
  }
};

// The gradients of activation(result of the convolution + residual) by residual and result.
struct EpilogueRule {
  static constexpr const char* kFunction = "HaloconvConv2dFused";
  static constexpr size_t kSaved = 4, kEdges = 2;
  using Saved = std::array<at::Tensor, kSaved>;  // output, or input, weight and bias
  using Wants = std::array<bool, kEdges>;

  std::string name() const { return "HaloconvConv2dFusedBackward"; }
  std::array<bool, kSaved> needs(const Wants&) const { return {true, true, true, true}; }

  variable_list gradients(const variable_list& incoming, const Saved& saved, const Wants&) const {
    if (!incoming[0].defined()) return variable_list(kEdges);
    const at::Tensor gradient = activate_backward(activation, incoming[0], known(saved));
    return {gradient, gradient};
  }

  template <class Self, class Visit>
  static void for_each_value(Self& self, Visit visit) {
    visit(self.activation.kind);
    visit(self.activation.a);
    visit(self.activation.b);
    visit(self.op);
    KeptParameters::for_each_value(self.parameters, visit);
  }

  Activation activation;
  int64_t op = 0;             // the index of the ForwardOp, and
  KeptParameters parameters;  // its parameters, of the convolution that gives anew what the
                              // activation was given

 private:
  at::Tensor known(const Saved& saved) const {
    const auto& [output, input, weight, bias] = saved;
    if (!input.defined()) return output;
    return ops::forward(*kForwardOps[op], input, weight,
                        bias.defined() ? ops::OptionalTensor(bias) : std::nullopt, parameters);
  }
};

// Without `recomputed` the activation's derivative follows from the output.
void set_history(const at::Tensor& output, const Epilogue& epilogue, const Convolution& convolution,
                 bool recomputed) {
  const auto node = RuleNode<EpilogueRule>::create();
  node->set_next_edges(torch::autograd::collect_next_edges(epilogue.residual));
  node->add_next_edge(convolution.edge(output));
  node->rule.activation = epilogue.activation;
  node->rule.op = convolution.op.index;
  torch::autograd::set_history(output, node);
  if (recomputed) {
    node->rule.parameters = KeptParameters(convolution.parameters);
    node->saved[1] = SavedVariable(convolution.input, /*is_output=*/false);
    node->saved[2] = SavedVariable(convolution.weight, /*is_output=*/false);
    node->saved[3] = SavedVariable(convolution.bias, /*is_output=*/false);
  } else if (epilogue.activation.kind != ActivationKind::kNone) {
    node->saved[0] = SavedVariable(output, /*is_output=*/true);
  }
}

at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                         const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                         const ops::OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  const auto call = [&](c10::string_view name, at::ArrayRef<double> arguments) {
    return ops::forward_fused(op, input, weight, bias, parameters, scale, shift, residual, name,
                              arguments);
  };
  const auto call_below = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call(activation, activation_arguments);
  };
  const Epilogue epilogue(op, scale, shift, residual, activation, activation_arguments);
  if (isFwGradDefined(input) || isFwGradDefined(weight) || isFwGradDefined(bias) ||
      isFwGradDefined(scale) || isFwGradDefined(shift) || isFwGradDefined(residual)) {
    check_fused(op, input, weight, bias, parameters, epilogue);
    return epilogue.apply(ops::forward(op, input, weight, bias, parameters));
  }
  if (!compute_requires_grad(input, weight, bias, scale, shift, residual)) return call_below();

  if (op.transposed) {
    const auto args = check_fused(op, input, weight, bias, parameters, epilogue);
    if (args.has_zeros) {
      const PaddedTransposed padded(args, input);
      return ops::forward_fused(op, padded.input, weight, bias, padded.parameters, scale, shift,
                                residual, activation, activation_arguments);
    }
  }

  // The backward pass needs what the activation was given. It convolves again if that needs only
  // what the convolution's derivatives keep anyway; otherwise that value is saved.
  const bool recomputed = !derives_from_result(epilogue.activation);
  if (recomputed && (is_given(residual) || !compute_requires_grad(weight, scale))) {
    return activate(epilogue.activation, call("none", {}));
  }
  const at::Tensor output = call_below();
  Convolution convolution = {op, input, weight, bias, parameters};
  convolution.fold(epilogue);
  set_history(output, epilogue, convolution, recomputed);
  return output;
}

HALOCONV_IMPLEMENT(Autograd, m) {
  for_each_forward_op(
      [&]<const ForwardOp & kOp>() { m.impl(kOp.fused, bound<kOp, forward_fused>); });
}

}  // namespace
}  // namespace haloconv
