// The backward node of all convolution operators.
//
// A convolution ties three tensors: input, weight and output. Each operator takes two of them and
// gives the third, and is linear in both: conv2d gives an output, conv2d_dgrad an input,
// conv2d_wgrad a weight. So the derivative by an operand is the operator that gives that tensor,
// applied to the incoming gradient and the other operand, and one node serves every operator, to
// any order. A transposed convolution gives an input, as conv2d_dgrad does. The tensors of a 1-D
// convolution are treated as 2-D images and filters of a single row, also in its derivatives.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "registration/conv2d/checks.h"
#include "registration/conv2d/ops.h"
#include "registration/torch_compat/rule_node.h"

namespace haloconv {

enum Role { kInput, kWeight, kOutput };

// Parameters, kept after the call.
struct KeptParameters {
  KeptParameters() = default;
  explicit KeptParameters(const ForwardParameters& given)
      : stride(given.stride.vec()),
        padding(given.padding.vec()),
        output_padding(given.output_padding.vec()),
        dilation(given.dilation.vec()),
        groups(given.groups) {}
  operator ForwardParameters() const {
    return {{stride, padding, dilation, groups}, output_padding};
  }

  std::vector<c10::SymInt> stride, padding, output_padding, dilation;
  c10::SymInt groups;

  template <class Self, class Visit>
  static void for_each_value(Self& self, Visit visit) {
    visit(self.stride);
    visit(self.padding);
    visit(self.output_padding);
    visit(self.dilation);
    visit(self.groups);
  }
};

// Of the 2-D convolution that `args` describes.
KeptParameters conv2d_parameters(const Conv2dArguments& args);

// An operator that is the transposed convolution of `args`, after its input got the zeros of
// `args`. When it is differentiated or batched, it is two operators.
struct PaddedTransposed {
  PaddedTransposed(const Conv2dArguments& args, const at::Tensor& input);

  at::Tensor input;
  KeptParameters parameters;
};

// The gradients of the two operands, in their order, and of the bias that forward operators take.
struct Conv2dRule {
  static constexpr const char* kFunction = "HaloconvConv2d";
  static constexpr size_t kSaved = 2, kEdges = 3;
  using Saved = std::array<at::Tensor, kSaved>;  // the operands; each is for the other's gradient
  using Wants = std::array<bool, kEdges>;

  std::string name() const;
  std::array<bool, kSaved> needs(const Wants& wants) const { return {wants[1], wants[0]}; }
  // incoming: the gradient of the result, and for conv2d_wgrad_bias that of the bias gradient.
  torch::autograd::variable_list gradients(const torch::autograd::variable_list& incoming,
                                           const Saved& saved, const Wants& wants) const;

  template <class Self, class Visit>
  static void for_each_value(Self& self, Visit visit) {
    visit(self.result);
    visit(self.has_rows);
    KeptParameters::for_each_value(self.parameters, visit);
    visit(self.input_size);
    visit(self.weight_size);
    visit(self.input_format);
    visit(self.weight_format);
  }

  // The operator's operands in their order.
  std::array<Role, 2> operands() const;

  // A tensor of the operator, which may be undefined, as one of 2-D images, and back.
  at::Tensor with_rows(const at::Tensor& tensor) const;
  at::Tensor without_rows(const at::Tensor& tensor) const;

  Role result = kOutput;
  bool has_rows = true;  // false: the operator's tensors are those of a 1-D convolution
  KeptParameters parameters;
  std::vector<c10::SymInt> input_size;   // (h, w)
  std::vector<c10::SymInt> weight_size;  // (k, c/groups, r, s)
  // An input's gradient is channels_last if input or weight is; a weight's has the weight's own
  // format, so that DistributedDataParallel and AccumulateGrad take it without a copy.
  at::MemoryFormat input_format = at::MemoryFormat::Contiguous;
  at::MemoryFormat weight_format = at::MemoryFormat::Contiguous;

 private:
  using Tensors = std::array<at::Tensor, 3>;  // by role, as tensors of 2-D images

  // An input without channels has an output without channels, which does not depend on the filters.
  bool has_channels() const;
  // Each computes the tensor of one role from the other two. Input, weight and bias go to
  // gradients[0] to [2].
  at::Tensor input_of(const Tensors& tensors) const;
  at::Tensor output_of(const Tensors& tensors, const ops::OptionalTensor& bias) const;
  void all_operands_of(const Tensors& tensors, bool wants_bias,
                       torch::autograd::variable_list& gradients) const;
  void weight_and_bias_of(const Tensors& tensors, bool wants_weight, bool wants_bias,
                          torch::autograd::variable_list& gradients) const;
};

// `tensors`, by role, are the two operands and the result, whose role is `result`. `parameters` are
// those of the 2-D convolution. An operand is kept if the other one needs a gradient.
NodePointer<torch::autograd::Node> make_conv2d_node(Role result,
                                                    const std::array<at::Tensor, 3>& tensors,
                                                    const ops::OptionalTensor& bias,
                                                    const ForwardParameters& parameters,
                                                    bool has_rows = true);

// The same for a forward operator and its own parameters. The input of a transposed one has no
// zeros appended: see Conv2dArguments.
NodePointer<torch::autograd::Node> make_forward_node(const ForwardOp& op, const at::Tensor& input,
                                                     const at::Tensor& weight,
                                                     const ops::OptionalTensor& bias,
                                                     const ForwardParameters& parameters,
                                                     const at::Tensor& result);

}  // namespace haloconv
