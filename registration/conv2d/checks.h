// What a call means: its arguments checked and expanded, and the shapes that follow from them.
//
// The one place for validation, used by the kernels of every device and by the Meta kernels. So all
// arithmetic is in SymInt, and torch.compile can keep each check as a guard that holds for every
// size.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "conv2d/problem.h"
#include "registration/conv2d/epilogue.h"
#include "registration/conv2d/parameters.h"

namespace haloconv {

// The largest accepted padding, dilation, given size and transposed convolution's stride, so that
// sums of sizes and products of two stay within 64 bits.
inline constexpr int64_t kMostOfAnArgument = std::numeric_limits<int32_t>::max();

// Raises c10::Error for an undefined tensor. Here and below, the message begins with `op`.
void check_defined(const char* op, const char* name, const at::Tensor& tensor);

// Raises c10::Error for a weight that is undefined, or whose number of dimensions is not that of
// `of`. The message names `input`'s size, if it is given, as aten's does.
void check_weight(const char* op, const at::Tensor& weight, const ForwardOp& of = kConv2d,
                  const at::Tensor& input = {});

// Raises c10::Error for a dilation that has too many numbers, or numbers too small or too large.
void check_dilation(const char* op, c10::SymIntArrayRef dilation, const ForwardOp& of = kConv2d);

// Whether aten takes the tensor for channels_last.
inline bool is_channels_last(const at::Tensor& tensor) {
  return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

// A 2-D convolution whose arguments have been checked; the same in all three directions.
//
// A transposed convolution is described by the convolution whose input's gradient it is: (n, k, p,
// q) are the sizes of the transposed one's input, and (n, c, h, w) those of its result. In a 1-D
// convolution h, r and p are 1.
struct Conv2dArguments {
  c10::SymInt n, c, h, w;               // input (n, c, h, w)
  c10::SymInt k, r, s;                  // weight (k, c/groups, r, s)
  c10::SymInt p, q;                     // output (n, k, p, q)
  std::array<c10::SymInt, 2> stride;    // rows, columns
  std::array<c10::SymInt, 4> padding;   // top, bottom, left, right
  std::array<c10::SymInt, 2> dilation;  // rows, columns
  c10::SymInt groups;
  bool transposed = false;
  // Rows and columns of zeros to append to a transposed convolution's input. p and q count them,
  // but the caller's tensor does not have them: see check_forward().
  std::array<c10::SymInt, 2> zeros = {0, 0};
  bool has_zeros = false;
  int64_t pixel_dims = 2;  // of the caller's tensors
  bool batched = true;     // whether the caller's input and output carry n; if not, n is 1
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;  // of the result

  std::array<c10::SymInt, 4> input_size() const { return {n, c, h, w}; }
  std::array<c10::SymInt, 4> weight_size() const { return {k, c / groups, r, s}; }
  // As in aten, an input without channels gives an output without channels.
  std::array<c10::SymInt, 4> output_size() const;

  // The size of the forward direction's result, with the dimensions that the caller expects.
  std::vector<c10::SymInt> result_size() const;

  // batch() gives a tensor of the caller a dimension n if it has none, and unbatch() removes it
  // from a result. Both return views.
  at::Tensor batch(const at::Tensor& tensor) const;
  at::Tensor unbatch(const at::Tensor& tensor) const;
  // Views of the caller's filters and images with four dimensions, and of a 4-D result with the
  // dimensions that the caller expects.
  at::Tensor filters(const at::Tensor& tensor) const;
  at::Tensor images(const at::Tensor& tensor) const;
  at::Tensor result(const at::Tensor& images) const;
  // The images that the forward direction reads: a copy only if zeros are appended.
  at::Tensor operand(const at::Tensor& input) const;
};

// Each raises c10::Error that names the argument, what it was and what was expected, after `op`.
// If ATen's convolution refuses the same call, ATen's words come first.
//
// The result of a transposed convolution has output_padding more rows and columns than the taps of
// its last input pixel reach. The input of the convolution that describes it may have up to stride
// - 1 such rows. A dilation may allow a greater output_padding. Then the padding on that side is
// reduced by the rest and, if it is too small for that, zeros are appended to the transposed
// convolution's input.
Conv2dArguments check_forward(const ForwardOp& op, const at::Tensor& input,
                              const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              const ForwardParameters& parameters, const char* name);

// check_forward() for the fused operator: checks what follows the convolution too.
Conv2dArguments check_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const ForwardParameters& parameters, const Epilogue& epilogue);

Conv2dArguments check_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                            c10::SymIntArrayRef input_size, const Conv2dParameters& parameters,
                            std::optional<at::MemoryFormat> memory_format);

Conv2dArguments check_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                            c10::SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                            std::optional<at::MemoryFormat> memory_format,
                            const char* op = "haloconv::conv2d_wgrad");

// The arguments of conv2d_backward: those of both gradients, which differ in the result's format.
struct Conv2dBackwardArguments {
  Conv2dArguments dgrad, wgrad;
};

Conv2dBackwardArguments check_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                       const at::Tensor& weight, const Conv2dParameters& parameters,
                                       std::optional<at::MemoryFormat> input_format,
                                       std::optional<at::MemoryFormat> weight_format);

// The direction of the 2-D convolution that computes explain's direction, "fprop", "dgrad" or
// "wgrad", of `op`. Raises c10::Error for any other name.
Direction check_direction(const ForwardOp& op, std::string_view name);

}  // namespace haloconv
