// Reads and checks the arguments of one call, one by one. If ATen's convolution would refuse the
// call, the message begins with ATen's words, because programs match on them; `op` and what was
// expected follow. If there are several faults, the message names the first in ATen's order.
#pragma once

#include <array>
#include <optional>

#include "registration/conv2d/checks.h"

namespace haloconv {

class ArgumentReader {
 public:
  using Pair = std::array<c10::SymInt, 2>;  // rows, columns

  // `op` begins messages; tensors and parameters have the dimensions of `of`.
  explicit ArgumentReader(const char* op, const ForwardOp& of = kConv2d) : op_(op), of_(of) {}

  const char* op() const { return op_; }

  // Whether `tensor` (n, ...) carries its n.
  bool check_batch(const char* name, const at::Tensor& tensor) const;
  void check_alike(const char* name, const at::Tensor& tensor, const char* first_name,
                   const at::Tensor& first) const;
  // What ATen checks first, unless the convolution is transposed.
  void check_bias_type(const std::optional<at::Tensor>& bias, const at::Tensor& input) const;

  // `values` is one value for all dimensions of a pixel or one for each, `least` the smallest that
  // is accepted. 1-D tensors have no rows: the first of the pair is then `of_row`.
  Pair pair(const char* name, c10::SymIntArrayRef values, int64_t least, int64_t of_row = 1) const;
  void check_most(const char* name, c10::SymIntArrayRef values) const;
  void check_dilation(c10::SymIntArrayRef dilation) const;

  // Each sets members of `args`. set_parameters() must be called before set_weight() and
  // set_output(). None refuses what check_kernel() refuses, because ATen checks that later.
  void set_input(Conv2dArguments& args, const char* name, const at::Tensor& input) const;
  void set_parameters(Conv2dArguments& args, const Conv2dParameters& parameters,
                      c10::SymIntArrayRef output_padding = {}) const;
  void set_weight(Conv2dArguments& args, const at::Tensor& weight) const;
  void set_output(Conv2dArguments& args) const;  // p and q

  // Whether k, the number of filters that `tensor` has, is a positive multiple of the groups.
  void check_filters(const Conv2dArguments& args, const char* name, const at::Tensor& tensor) const;
  // Refuses an input without rows or columns. ATen checks this after all else that it does not
  // leave to its backends.
  void check_pixels(const Conv2dArguments& args, const char* name, const at::Tensor& input) const;
  // Refuses what ATen leaves to its backends: a dilation of 0, and a weight without rows or
  // columns.
  void check_kernel(const Conv2dArguments& args, c10::SymIntArrayRef dilation,
                    const at::Tensor& weight) const;
  // Whether `input` has `channels` channels, as many as `weight` asks for.
  void check_channels(const Conv2dArguments& args, const c10::SymInt& channels,
                      const at::Tensor& input, const at::Tensor& weight) const;
  // Whether `tensor`, if it is given, holds one value for each channel of the result.
  void check_per_channel(const Conv2dArguments& args, const char* name,
                         const std::optional<at::Tensor>& tensor, const at::Tensor& weight) const;
  // Whether `tensor` has the size of the forward direction's result.
  void check_result_size(const Conv2dArguments& args, const char* name,
                         const at::Tensor& tensor) const;

  // `memory_format` if it is given, otherwise channels_last if one of the 4-D operands is. Results
  // without elements are contiguous, as aten's are.
  at::MemoryFormat result_format(const Conv2dArguments& args,
                                 std::optional<at::MemoryFormat> memory_format,
                                 const at::Tensor& first, const at::Tensor& second,
                                 bool holds_n) const;

 private:
  template <class... Words>
  std::string op_after(bool are_about_it, const Words&... atens_words) const;
  bool has_rows() const { return of_.pixel_dims == 2; }
  void check_count(const char* name, c10::SymIntArrayRef values) const;
  std::array<c10::SymInt, 4> sides(const char* name, c10::SymIntArrayRef values) const;
  Pair check_dilation_or_0(c10::SymIntArrayRef dilation) const;
  void check_least(const char* name, c10::SymIntArrayRef values, int64_t least) const;
  // "(h x w)", or "(w)" for 1-D tensors.
  std::string pixels(const c10::SymInt& h, const c10::SymInt& w) const;

  const char* op_;
  const ForwardOp& of_;
};

}  // namespace haloconv
