// The backward node of all convolution operators.
//
// A convolution ties three tensors: input, weight and output. Each operator takes two of them and
// gives the third, and is linear in both: conv2d gives an output, conv2d_dgrad an input,
// conv2d_wgrad a weight. So the derivative by an operand is the operator that gives that tensor,
// applied to the incoming gradient and the other operand; and one node serves every operator, to
// any order.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <array>
#include <memory>
#include <vector>

#include "registration/conv2d_ops.h"

namespace haloconv {

enum Role { kInput, kWeight, kOutput };

struct Parameters {
  std::vector<c10::SymInt> stride, padding, dilation;
  c10::SymInt groups;
};

class Conv2dNode : public torch::autograd::Node {
 public:
  // `tensors`, by role, are the two operands and the result, whose role is `result`. Only conv2d
  // takes a bias. An operand is kept if the other one needs a gradient.
  static std::shared_ptr<Conv2dNode> create(Role result, const std::array<at::Tensor, 3>& tensors,
                                            const ops::OptionalTensor& bias, Parameters parameters);

  std::string name() const override;
  void release_variables() override;

 protected:
  // grads: of the result, and for conv2d_wgrad_bias of the bias gradient.
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override;

 private:
  using Tensors = std::array<at::Tensor, 3>;  // by role

  // The operator's operands in their order.
  std::array<Role, 2> operands() const;
  // An input without channels has an output without channels, which tells nothing of the filters.
  bool has_channels() const;
  // The tensor of each role by the other two. Input, weight and bias go to grads[0] to grads[2].
  at::Tensor input_of(const Tensors& tensors) const;
  at::Tensor output_of(const Tensors& tensors, const ops::OptionalTensor& bias) const;
  void all_operands_of(const Tensors& tensors, bool wants_bias,
                       torch::autograd::variable_list& grads) const;
  void weight_and_bias_of(const Tensors& tensors, bool wants_weight, bool wants_bias,
                          torch::autograd::variable_list& grads) const;

  Role result_ = kOutput;
  std::array<torch::autograd::SavedVariable, 2> saved_;  // in the order of the operands
  Parameters parameters_;
  std::vector<c10::SymInt> input_size_;   // (h, w)
  std::vector<c10::SymInt> weight_size_;  // (k, c/groups, r, s)
  // An input's gradient is channels_last where input or weight is; a weight's has the weight's own
  // format, so that DistributedDataParallel and AccumulateGrad take it without a copy.
  at::MemoryFormat input_format_ = at::MemoryFormat::Contiguous;
  at::MemoryFormat weight_format_ = at::MemoryFormat::Contiguous;
};

// The gradient of a bias: `grad_output` summed over images and pixels.
at::Tensor sum_over_pixels(const at::Tensor& grad_output);

}  // namespace haloconv
