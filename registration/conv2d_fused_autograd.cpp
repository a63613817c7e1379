// conv2d_fused's Autograd kernel. Backward, its result is that of conv2d, with scale and shift
// folded into filters and biases, a residual and an activation: two nodes, the convolution's own
// and one for what follows. In forward mode it is those operators.
#include <ATen/TensorOperators.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "registration/conv2d_checks.h"
#include "registration/conv2d_node.h"
#include "registration/library.h"

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;
using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A convolution's operands, tied to their derivatives.
struct Convolution {
  at::Tensor input, weight;
  ops::OptionalTensor bias;
  Parameters parameters;

  // With the weight and the bias that give what scale and shift make of these.
  void fold(const Epilogue& epilogue) {
    if (is_given(epilogue.scale)) {
      weight = weight * epilogue.scale->view_symint({-1, 1, 1, 1});
      if (is_given(bias)) bias = *bias * *epilogue.scale;
    }
    if (is_given(epilogue.shift)) {
      bias = is_given(bias) ? *bias + *epilogue.shift : *epilogue.shift;
    }
  }

  // An edge to the convolution's node; to nowhere where no operand needs a gradient.
  torch::autograd::Edge edge(const at::Tensor& output) const {
    if (!compute_requires_grad(input, weight, bias)) return {};
    const auto node = Conv2dNode::create(kOutput, {input, weight, output}, bias, parameters);
    return {node, node->add_input_metadata(output)};
  }
};

// The derivatives of activation(result of the convolution + residual).
class EpilogueNode : public torch::autograd::Node {
 public:
  // Without `recomputed` the activation's derivative follows from the output.
  static void set_history(const at::Tensor& output, const Epilogue& epilogue,
                          const Convolution& convolution, bool recomputed) {
    const std::shared_ptr<EpilogueNode> node(new EpilogueNode, torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(epilogue.residual));
    node->add_next_edge(convolution.edge(output));
    node->activation_ = epilogue.activation;
    node->recomputed_ = recomputed;
    torch::autograd::set_history(output, node);
    if (recomputed) {
      node->input_ = SavedVariable(convolution.input, /*is_output=*/false);
      node->weight_ = SavedVariable(convolution.weight, /*is_output=*/false);
      node->bias_ = SavedVariable(convolution.bias, /*is_output=*/false);
      node->parameters_ = convolution.parameters;
    } else if (epilogue.activation.kind != ActivationKind::kNone) {
      node->output_ = SavedVariable(output, /*is_output=*/true);
    }
  }

  std::string name() const override { return "HaloconvConv2dFusedBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable* saved : {&input_, &weight_, &bias_, &output_}) saved->reset_data();
  }

 protected:
  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    if (!grads[0].defined()) return variable_list(2);
    const at::Tensor grad = activate_backward(activation_, grads[0], known());
    return {grad, grad};
  }

 private:
  at::Tensor known() {
    if (activation_.kind == ActivationKind::kNone) return {};
    if (!recomputed_) return output_.unpack(getptr());
    const at::Tensor bias = bias_.unpack();
    return ops::conv2d(input_.unpack(), weight_.unpack(),
                       bias.defined() ? ops::OptionalTensor(bias) : std::nullopt,
                       parameters_.stride, parameters_.padding, parameters_.dilation,
                       parameters_.groups);
  }

  Activation activation_;
  bool recomputed_ = false;
  SavedVariable input_, weight_, bias_;  // where recomputed
  Parameters parameters_;
  SavedVariable output_;
};

at::Tensor conv2d_fused(const at::Tensor& input, const at::Tensor& weight,
                        const ops::OptionalTensor& bias, SymIntArrayRef stride,
                        SymIntArrayRef padding, SymIntArrayRef dilation, SymInt groups,
                        const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                        const ops::OptionalTensor& residual, c10::string_view activation,
                        at::ArrayRef<double> activation_arguments) {
  const auto call = [&](c10::string_view name, at::ArrayRef<double> arguments) {
    return ops::conv2d_fused(input, weight, bias, stride, padding, dilation, groups, scale, shift,
                             residual, name, arguments);
  };
  const auto call_below = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call(activation, activation_arguments);
  };
  const Epilogue epilogue(scale, shift, residual, activation, activation_arguments);
  if (isFwGradDefined(input) || isFwGradDefined(weight) || isFwGradDefined(bias) ||
      isFwGradDefined(scale) || isFwGradDefined(shift) || isFwGradDefined(residual)) {
    check_fused(input, weight, bias, stride, padding, dilation, groups, epilogue);
    return epilogue.apply(ops::conv2d(input, weight, bias, stride, padding, dilation, groups));
  }
  if (!compute_requires_grad(input, weight, bias, scale, shift, residual)) return call_below();

  // What the activation was given is needed: convolved again where that keeps nothing that the
  // convolution's derivatives do not keep anyway, else saved.
  const bool recomputed = !derives_from_result(epilogue.activation);
  if (recomputed && (is_given(residual) || !compute_requires_grad(weight, scale))) {
    return activate(epilogue.activation, call("none", {}));
  }
  const at::Tensor output = call_below();
  Convolution convolution = {
      input, weight, bias, {stride.vec(), padding.vec(), dilation.vec(), groups}};
  convolution.fold(epilogue);
  EpilogueNode::set_history(output, epilogue, convolution, recomputed);
  return output;
}

HALOCONV_IMPLEMENT(Autograd, m) { m.impl("conv2d_fused", &conv2d_fused); }

}  // namespace
}  // namespace haloconv
