// Reads and checks the arguments of one call, one by one. Where ATen's convolution would refuse a
// call, its words begin the message, for who looks for them; `op` and what was expected follow. Of
// several faults the first is named, in ATen's order.
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
  // Of a convolution that is not transposed, ATen looks at this first.
  void check_bias_type(const std::optional<at::Tensor>& bias, const at::Tensor& input) const;

  // One value or one for each dimension of a pixel. Where there is but a row, `of_row` is its.
  Pair pair(const char* name, c10::SymIntArrayRef values, int64_t least, int64_t of_row = 1) const;
  void check_most(const char* name, c10::SymIntArrayRef values) const;
  void check_dilation(c10::SymIntArrayRef dilation) const;

  // Each sets members of `args`; the parameters come before weight and output. What check_kernel()
  // refuses passes.
  void set_input(Conv2dArguments& args, const char* name, const at::Tensor& input) const;
  void set_parameters(Conv2dArguments& args, const Conv2dParameters& parameters,
                      c10::SymIntArrayRef output_padding = {}) const;
  void set_weight(Conv2dArguments& args, const at::Tensor& weight) const;
  void set_output(Conv2dArguments& args) const;  // p and q

  // The number of filters, k, as `tensor` has it.
  void check_filters(const Conv2dArguments& args, const char* name, const at::Tensor& tensor) const;
  // ATen looks for missing rows or columns after all else that it does not leave to a backend.
  void check_pixels(const Conv2dArguments& args, const char* name, const at::Tensor& input) const;
  // What ATen leaves to its backends: a dilation of 0, and a weight without rows or columns.
  void check_kernel(const Conv2dArguments& args, c10::SymIntArrayRef dilation,
                    const at::Tensor& weight) const;
  // `input` has `channels`, those that `weight` asks for.
  void check_channels(const Conv2dArguments& args, const c10::SymInt& channels,
                      const at::Tensor& input, const at::Tensor& weight) const;
  // `tensor`, if there is one, holds a value for each channel of the result.
  void check_per_channel(const Conv2dArguments& args, const char* name,
                         const std::optional<at::Tensor>& tensor, const at::Tensor& weight) const;
  // `tensor` must have the size of what the forward direction gives.
  void check_result_size(const Conv2dArguments& args, const char* name,
                         const at::Tensor& tensor) const;

  // A given format, or channels_last where one of the 4-D operands is. A tensor without elements is
  // contiguous, as aten's results are.
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
  // "(h x w)", or "(w)" where there is but a row.
  std::string pixels(const c10::SymInt& h, const c10::SymInt& w) const;

  const char* op_;
  const ForwardOp& of_;
};

}  // namespace haloconv
