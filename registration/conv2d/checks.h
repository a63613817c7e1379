// What a call means: its arguments checked and expanded, and the shapes that follow from them.
//
// The one place for validation, used by the kernels of every device and by the Meta kernels; so all
// arithmetic is in SymInt, and each check is one that torch.compile can keep as a guard which holds
// for every size.
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

// Of padding, dilation and sizes that are given as numbers: so large that sums of sizes and
// products of two stay within 64 bits.
inline constexpr int64_t kMostOfAnArgument = std::numeric_limits<int32_t>::max();

// Raises c10::Error, which `op` begins, for an undefined tensor.
void check_defined(const char* op, const char* name, const at::Tensor& tensor);

// And for a weight that has not the dimensions of an operator's. `input`, if there is one, is in
// the message, as it is in aten's.
void check_weight(const char* op, const at::Tensor& weight, const ForwardOp& of = kConv2d,
                  const at::Tensor& input = {});

// And for a dilation of too many numbers, or too small or large.
void check_dilation(const char* op, c10::SymIntArrayRef dilation, const ForwardOp& of = kConv2d);

// A 2-D convolution whose arguments have been checked; the same in all three directions.
//
// Of a transposed convolution: the one whose input's gradient it is, so that (n, k, p, q) are its
// input's sizes and (n, c, h, w) its result's. Of a 1-D one: h, r and p are 1.
struct Conv2dArguments {
  c10::SymInt n, c, h, w;               // input (n, c, h, w)
  c10::SymInt k, r, s;                  // weight (k, c/groups, r, s)
  c10::SymInt p, q;                     // output (n, k, p, q)
  std::array<c10::SymInt, 2> stride;    // rows, columns
  std::array<c10::SymInt, 4> padding;   // top, bottom, left, right
  std::array<c10::SymInt, 2> dilation;  // rows, columns
  c10::SymInt groups;
  bool transposed = false;
  // Rows and columns of zeros that a transposed convolution's input ends with, part of p and q and
  // not of the caller's tensor: see check_forward().
  std::array<c10::SymInt, 2> zeros = {0, 0};
  bool has_zeros = false;
  int64_t pixel_dims = 2;  // of the caller's tensors
  bool batched = true;     // whether its input and output carry n, which else is 1
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;  // of the result

  std::array<c10::SymInt, 4> input_size() const { return {n, c, h, w}; }
  std::array<c10::SymInt, 4> weight_size() const { return {k, c / groups, r, s}; }
  // As in aten, an input without channels gives an output without channels.
  std::array<c10::SymInt, 4> output_size() const;

  // Of the forward direction, as the caller sees it.
  std::vector<c10::SymInt> result_size() const;

  // A tensor of the caller's with its n, and such a result without where the caller's has none.
  at::Tensor batch(const at::Tensor& tensor) const;
  at::Tensor unbatch(const at::Tensor& tensor) const;
  // Filters as 4-D ones, images as a 4-D batch, and a 4-D result as the caller expects it: views.
  at::Tensor filters(const at::Tensor& tensor) const;
  at::Tensor images(const at::Tensor& tensor) const;
  at::Tensor result(const at::Tensor& images) const;
  // The images that the forward direction reads: a copy only where zeros are appended.
  at::Tensor operand(const at::Tensor& input) const;
};

// Each raises c10::Error that names the argument, what it was and what was expected, after `op`.
// Where ATen's convolution refuses the same call, ATen's words come first.
//
// The result of a transposed convolution may go on by output_padding beyond what the taps of its
// last input pixel reach. A convolution's input may do so by stride - 1; where output_padding is
// greater, as a greater dilation allows, the padding at that side is smaller by the rest, and where
// there is too little padding for that, the input ends with zeros.
Conv2dArguments check_forward(const ForwardOp& op, const at::Tensor& input,
                              const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              const ForwardParameters& parameters, const char* name);

// Of the fused operator: also what follows the convolution.
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

// conv2d_backward's: those of both gradients, which differ by the format of the result.
struct Conv2dBackwardArguments {
  Conv2dArguments dgrad, wgrad;
};

Conv2dBackwardArguments check_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                       const at::Tensor& weight, const Conv2dParameters& parameters,
                                       std::optional<at::MemoryFormat> input_format,
                                       std::optional<at::MemoryFormat> weight_format);

// explain's direction, "fprop", "dgrad" or "wgrad", as that of the 2-D convolution that computes
// it.
Direction check_direction(const ForwardOp& op, std::string_view name);

}  // namespace haloconv
