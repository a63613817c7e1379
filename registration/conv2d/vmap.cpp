// Batching rules of vmap: the batch is folded into a dimension that the convolution has already.
//
// The result is batched, and so is one operand or both. Which dimension takes the batch depends on
// which of the three tensors carry it:
//   input and output:   n, as more images;
//   weight and output:  k, as more filters of each group;
//   input and weight:   c, as more input channels of each group;
//   all three:          groups.
#include <ATen/TensorOperators.h>

#include "registration/conv2d/checks.h"
#include "registration/conv2d/node.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"
#include "registration/torch_compat/vmap_level.h"

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;
using vmap::Level;
using vmap::Operand;

// Where a tensor takes the batch: dimension `dim` is `outer` blocks, each of which is repeated for
// the whole batch.
struct Place {
  int64_t dim = 0;
  SymInt outer = 1;
};

// (batch, ..., outer * inner, ...) -> (..., outer * batch * inner, ...)
at::Tensor fold(const at::Tensor& tensor, const Place& place) {
  const int64_t dim = place.dim + 1;
  const SymInt inner = tensor.sym_size(dim) / place.outer;
  return tensor.unflatten_symint(dim, {place.outer, inner})
      .movedim(0, dim)
      .flatten(place.dim, place.dim + 2);
}

// (..., outer * batch * inner, ...) -> (batch, ..., outer * inner, ...), which is (batch, *size).
at::Tensor unfold(const at::Tensor& tensor, const Place& place, const SymInt& batch,
                  SymIntArrayRef size) {
  const int64_t dim = place.dim + 1;
  const SymInt inner = size[place.dim] / place.outer;
  return tensor.unflatten_symint(place.dim, {place.outer, batch, inner})
      .movedim(dim, 0)
      .flatten(dim, dim + 1);
}

// What each tensor's place is, by which tensors are batched.
struct Folding {
  Folding(bool input_batched, bool weight_batched, bool output_batched, const SymInt& groups) {
    if (!weight_batched) {
      input = output = {0};
    } else if (!input_batched) {
      weight = {0, groups};
      output = {1, groups};
    } else if (!output_batched) {
      input = {1, groups};
      weight = {1};
    } else {
      input = output = {1};
      weight = {0};
      folds_groups = true;
    }
  }

  Conv2dParameters folded(const Conv2dParameters& parameters, const SymInt& batch) const {
    return folds_groups ? parameters.with_groups(parameters.groups * batch) : parameters;
  }

  Place input, weight, output;
  bool folds_groups = false;
};

at::Tensor fold_if_batched(const Operand& operand, const Place& place) {
  return operand.batched ? fold(operand.value, place) : operand.value;
}

SymInt batch_of(const Operand& a, const Operand& b) {
  return (a.batched ? a : b).value.sym_sizes()[0];
}

// A result (batch, n, ...) as the caller expects it, without n if the caller left it out.
at::Tensor unbatch(const Conv2dArguments& args, const at::Tensor& result) {
  return args.batched ? result : result.squeeze(1);
}

// `size` of a result with its n, without the batch, plus a batch of biases (batch, k).
at::Tensor add_bias(const ForwardOp& op, std::vector<SymInt> size, const at::Tensor& output,
                    const Operand& bias) {
  const SymInt batch = bias.value.sym_sizes()[0];
  // An output without channels takes no bias, but is batched all the same.
  if (TORCH_GUARD_OR_FALSE(size[1].sym_eq(0))) {
    size.insert(size.begin(), batch);
    return output.expand_symint(size);
  }
  return output + add_pixel_dims(bias.value.unsqueeze(1), op.pixel_dims);
}

at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const ops::OptionalTensor& bias, const ForwardParameters& parameters) {
  const auto args = check_forward(op, input, weight, bias, parameters, op.name);
  if (args.has_zeros) {
    const PaddedTransposed padded(args, input);
    return ops::forward(op, padded.input, weight, bias, padded.parameters);
  }
  const at::Tensor images = args.batch(input);
  const Level level;
  const Operand x = level.unwrap(images);
  const Operand w = level.unwrap(weight);
  const Operand b = bias.has_value() ? level.unwrap(*bias) : Operand();
  if (!x.batched && !w.batched && !b.batched) {
    return ops::forward(op, input, weight, bias, parameters);
  }
  auto size = args.result_size();
  if (!args.batched) size.insert(size.begin(), 1);
  if (!x.batched && !w.batched) {
    const at::Tensor output = ops::forward(op, x.value, w.value, {}, parameters);
    return level.wrap(unbatch(args, add_bias(op, size, output, b)));
  }

  // By the roles of the 2-D convolution, of which a transposed one gives the input.
  const Folding folding(op.transposed || x.batched, w.batched, !op.transposed || x.batched,
                        parameters.groups);
  const Place& of_input = op.transposed ? folding.output : folding.input;
  const Place& of_result = op.transposed ? folding.input : folding.output;
  const SymInt batch = batch_of(x, w);
  // If filters carry the batch, its biases are folded as the result's channels; otherwise a batch
  // of biases is added at the end.
  ops::OptionalTensor folded_bias;
  if (b.value.defined() && w.batched) {
    const at::Tensor biases =
        b.batched ? b.value : b.value.expand_symint({batch, b.value.sym_size(0)});
    folded_bias = fold(biases, {0, of_result.outer});
  } else if (b.value.defined() && !b.batched) {
    folded_bias = b.value;
  }
  const at::Tensor output =
      ops::forward(op, fold_if_batched(x, of_input), fold_if_batched(w, folding.weight),
                   folded_bias, {folding.folded(parameters, batch), parameters.output_padding});
  const at::Tensor result = unfold(output, of_result, batch, size);
  return level.wrap(
      unbatch(args, b.batched && !w.batched ? add_bias(op, size, result, b) : result));
}

// Taken apart, so that each part folds the batch in its own way.
at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, const ForwardParameters& parameters,
                         const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                         const ops::OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  const Epilogue epilogue(op, scale, shift, residual, activation, activation_arguments);
  check_fused(op, input, weight, bias, parameters, epilogue);
  return epilogue.apply(ops::forward(op, input, weight, bias, parameters));
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        SymIntArrayRef input_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_dgrad(grad_output, weight, input_size, parameters, memory_format);
  const at::Tensor grads = args.batch(grad_output);
  const Level level;
  const Operand g = level.unwrap(grads);
  const Operand w = level.unwrap(weight);
  const auto call = [&](const at::Tensor& grad, const at::Tensor& filters,
                        const Conv2dParameters& folded) {
    return ops::conv2d_dgrad(grad, filters, input_size, folded, memory_format);
  };
  if (!g.batched && !w.batched) {
    return call(grad_output, weight, parameters);
  }
  const Folding folding(true, w.batched, g.batched, parameters.groups);
  const SymInt batch = batch_of(g, w);
  const at::Tensor grad_input =
      call(fold_if_batched(g, folding.output), fold_if_batched(w, folding.weight),
           folding.folded(parameters, batch));
  return level.wrap(unbatch(args, unfold(grad_input, folding.input, batch, args.input_size())));
}

// The operands of a weight gradient, folded; `op` is one of the two operators.
template <class Op>
auto call_wgrad(Op op, const Operand& g, const Operand& x, const Folding& folding,
                SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                ops::OptionalFormat memory_format) {
  return op(fold_if_batched(g, folding.output), fold_if_batched(x, folding.input), kernel_size,
            folding.folded(parameters, batch_of(g, x)), memory_format);
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                        ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format);
  const at::Tensor grads = args.batch(grad_output), images = args.batch(input);
  const Level level;
  const Operand g = level.unwrap(grads), x = level.unwrap(images);
  if (!g.batched && !x.batched) {
    return ops::conv2d_wgrad(grad_output, input, kernel_size, parameters, memory_format);
  }
  const Folding folding(x.batched, true, g.batched, parameters.groups);
  const at::Tensor grad_weight =
      call_wgrad(ops::conv2d_wgrad, g, x, folding, kernel_size, parameters, memory_format);
  return level.wrap(unfold(grad_weight, folding.weight, batch_of(g, x), args.weight_size()));
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& parameters,
                                                     ops::OptionalFormat memory_format) {
  const auto args = check_wgrad(grad_output, input, kernel_size, parameters, memory_format,
                                "haloconv::conv2d_wgrad_bias");
  const at::Tensor grads = args.batch(grad_output), images = args.batch(input);
  const Level level;
  const Operand g = level.unwrap(grads), x = level.unwrap(images);
  if (!g.batched && !x.batched) {
    return ops::conv2d_wgrad_bias(grad_output, input, kernel_size, parameters, memory_format);
  }
  const Folding folding(x.batched, true, g.batched, parameters.groups);
  const SymInt batch = batch_of(g, x);
  const auto [grad_weight, grad_bias] =
      call_wgrad(ops::conv2d_wgrad_bias, g, x, folding, kernel_size, parameters, memory_format);
  // The biases fold as the output channels that they belong to.
  const Place bias = {0, folding.output.outer};
  return {level.wrap(unfold(grad_weight, folding.weight, batch, args.weight_size())),
          g.batched ? level.wrap(unfold(grad_bias, bias, batch, args.k)) : grad_bias};
}

HALOCONV_IMPLEMENT(FuncTorchBatched, m) {
  for_each_forward_op([&]<const ForwardOp & kOp>() {
    m.impl(kOp.name, bound<kOp, forward>);
    m.impl(kOp.fused, bound<kOp, forward_fused>);
  });
  m.impl("conv2d_dgrad", unpacked<conv2d_dgrad>);
  m.impl("conv2d_wgrad", unpacked<conv2d_wgrad>);
  m.impl("conv2d_wgrad_bias", unpacked<conv2d_wgrad_bias>);
}

}  // namespace
}  // namespace haloconv
