#include "registration/conv2d/argument_reader.h"

#include <c10/util/Exception.h>

#include <string>
#include <string_view>

namespace haloconv {

using c10::SymInt;
using c10::SymIntArrayRef;

namespace {

bool is_input(std::string_view name) { return name == "input"; }

}  // namespace

// The beginning of a message: ATen's words if there are any for this call, then `op`.
template <class... Words>
std::string ArgumentReader::op_after(bool are_about_it, const Words&... atens_words) const {
  return are_about_it ? c10::str(atens_words..., "; ", op_) : std::string(op_);
}

std::string ArgumentReader::pixels(const SymInt& h, const SymInt& w) const {
  return has_rows() ? c10::str("(", h, " x ", w, ")") : c10::str("(", w, ")");
}

bool ArgumentReader::check_batch(const char* name, const at::Tensor& tensor) const {
  const int64_t with_n = of_.pixel_dims + 2, without_n = with_n - 1;
  TORCH_CHECK(tensor.dim() == without_n || tensor.dim() == with_n,
              op_after(is_input(name), "Expected ", without_n, "D (unbatched) or ", with_n,
                       "D (batched) input to ", of_.short_name,
                       ", but got input of size: ", tensor.sym_sizes()),
              ": expected ", name, " to be ", with_n, "-D, or ", without_n,
              "-D without the batch, but got a tensor of size ", tensor.sym_sizes());
  return tensor.dim() == with_n;
}

void ArgumentReader::check_alike(const char* name, const at::Tensor& tensor, const char* first_name,
                                 const at::Tensor& first) const {
  check_defined(op_, first_name, first);
  check_defined(op_, name, tensor);
  const auto op = [&] {
    return op_after(is_input(first_name), "Input type (", first.toString(), ") and ", name,
                    " type (", tensor.toString(), ") should be the same");
  };
  TORCH_CHECK(tensor.scalar_type() == first.scalar_type(), op(), ": expected ", name,
              " to have the dtype of ", first_name, ", ", first.scalar_type(), ", but it has ",
              tensor.scalar_type());
  // As in aten, a Meta tensor goes with any other: the result is then a Meta tensor.
  TORCH_CHECK(tensor.device() == first.device() || tensor.is_meta() || first.is_meta(), op(),
              ": expected ", name, " to be on the device of ", first_name, ", ", first.device(),
              ", but it is on ", tensor.device());
}

void ArgumentReader::check_bias_type(const std::optional<at::Tensor>& bias,
                                     const at::Tensor& input) const {
  if (!is_given(bias)) return;
  check_defined(op_, "input", input);
  TORCH_CHECK(bias->scalar_type() == input.scalar_type(), "Input type (", input.dtype().name(),
              ") and bias type (", bias->dtype().name(), ") should be the same; ", op_,
              ": expected bias to have the dtype of input, ", input.scalar_type(), ", but it has ",
              bias->scalar_type());
}

// In ATen's words, which know only one number of values for each parameter.
void ArgumentReader::check_count(const char* name, SymIntArrayRef values) const {
  const bool is_padding = std::string_view(name) == "padding";
  const size_t dims = of_.pixel_dims, count = values.size();
  const char* expected = !is_padding  ? (has_rows() ? "1 or 2 values" : "1 value")
                         : has_rows() ? "1, 2 or 4 values (top, bottom, left, right)"
                                      : "1 or 2 values (left, right)";
  TORCH_CHECK(count == 1 || count == dims || (is_padding && count == 2 * dims), "expected ", name,
              " to be a single integer value or a list of ", dims,
              " values to match the convolution dimensions, but got ", name, "=", values, "; ", op_,
              ": expected ", name, " to have ", expected, ", but got ", values);
}

ArgumentReader::Pair ArgumentReader::pair(const char* name, SymIntArrayRef values, int64_t least,
                                          int64_t of_row) const {
  check_count(name, values);
  check_least(name, values, least);
  return {has_rows() ? values.front() : SymInt(of_row), values.back()};
}

void ArgumentReader::check_dilation(SymIntArrayRef dilation) const {
  check_dilation_or_0(dilation);
  pair("dilation", dilation, 1);
}

ArgumentReader::Pair ArgumentReader::check_dilation_or_0(SymIntArrayRef dilation) const {
  for (const SymInt& value : dilation) {
    TORCH_SYM_CHECK(value.sym_ge(0), "dilation should be greater than zero; ", op_,
                    ": expected each value of dilation to be at least 1, but got ", dilation);
  }
  check_most("dilation", dilation);
  return pair("dilation", dilation, 0);
}

std::array<SymInt, 4> ArgumentReader::sides(const char* name, SymIntArrayRef values) const {
  check_count(name, values);
  check_least(name, values, 0);
  if (!has_rows()) return {0, 0, values.front(), values.back()};
  if (values.size() == 4) return {values[0], values[1], values[2], values[3]};
  return {values.front(), values.front(), values.back(), values.back()};
}

void ArgumentReader::set_parameters(Conv2dArguments& args, const Conv2dParameters& parameters,
                                    SymIntArrayRef output_padding) const {
  const auto& [stride, padding, dilation, groups] = parameters;
  args.pixel_dims = of_.pixel_dims;
  TORCH_SYM_CHECK(groups.sym_ge(1), "non-positive groups is not supported; ", op_,
                  ": expected groups to be at least 1, but got ", groups);
  args.groups = groups;
  check_count("stride", stride);
  check_count("padding", padding);
  check_count("dilation", dilation);
  if (of_.transposed) check_count("output_padding", output_padding);
  args.padding = sides("padding", padding);
  if (of_.transposed) check_least("output_padding", output_padding, 0);
  args.stride = pair("stride", stride, 1);
  args.dilation = check_dilation_or_0(dilation);
  check_most("padding", padding);
}

void ArgumentReader::set_input(Conv2dArguments& args, const char* name,
                               const at::Tensor& input) const {
  args.batched = check_batch(name, input);
  args.n = args.batched ? input.sym_size(0) : SymInt(1);
  args.c = input.sym_size(-1 - of_.pixel_dims);
  args.h = has_rows() ? input.sym_size(-2) : SymInt(1);
  args.w = input.sym_size(-1);
}

void ArgumentReader::check_pixels(const Conv2dArguments& args, const char* name,
                                  const at::Tensor& input) const {
  TORCH_SYM_CHECK(args.h.sym_ge(1).sym_and(args.w.sym_ge(1)),
                  "Only zero batch or zero channel inputs are supported, but got input shape: ",
                  input.sym_sizes(), "; ", op_, ": expected ", name, " to have ",
                  has_rows() ? "rows and columns" : "columns", ", but got a tensor of size ",
                  input.sym_sizes());
}

void ArgumentReader::set_weight(Conv2dArguments& args, const at::Tensor& weight) const {
  check_weight(op_, weight, of_);
  args.k = weight.sym_size(0);
  args.r = has_rows() ? weight.sym_size(2) : SymInt(1);
  args.s = weight.sym_size(-1);
  check_filters(args, "weight", weight);
}

void ArgumentReader::check_kernel(const Conv2dArguments& args, SymIntArrayRef dilation,
                                  const at::Tensor& weight) const {
  check_dilation(dilation);
  TORCH_SYM_CHECK(args.r.sym_ge(1).sym_and(args.s.sym_ge(1)), op_, ": expected weight to have ",
                  has_rows() ? "rows and columns" : "columns", ", but got a tensor of size ",
                  weight.sym_sizes());
}

void ArgumentReader::check_filters(const Conv2dArguments& args, const char* name,
                                   const at::Tensor& tensor) const {
  const char* what = of_.transposed ? "input" : "output";
  TORCH_SYM_CHECK(args.k.sym_ge(args.groups), "Given groups=", args.groups, ", expected ", name,
                  " to be at least ", args.groups, " at dimension 0, but got ", name, " of size ",
                  tensor.sym_sizes(), " instead; ", op_, ": expected ", name, " to have at least ",
                  args.groups, " ", what, " channels for groups=", args.groups,
                  ", but got a tensor of size ", tensor.sym_sizes());
  TORCH_SYM_CHECK((args.k % args.groups).sym_eq(0), "Given groups=", args.groups, ", expected ",
                  name, " to be divisible by ", args.groups, " at dimension 0, but got ", name,
                  " of size [", tensor.sym_sizes(), "] instead; ", op_, ": expected ", name,
                  " to have ", what, " channels divisible by groups=", args.groups,
                  ", but got a tensor of size ", tensor.sym_sizes());
}

void ArgumentReader::check_channels(const Conv2dArguments& args, const SymInt& channels,
                                    const at::Tensor& input, const at::Tensor& weight) const {
  const SymInt actual = input.sym_size(-1 - of_.pixel_dims);
  // Made only for an error, since its stream would take 0.4 us of each call.
  const auto given = [&] {
    return of_.transposed ? std::string("transposed=1") : c10::str("groups=", args.groups);
  };
  TORCH_SYM_CHECK(actual.sym_eq(channels), "Given ", given(), ", weight of size ",
                  weight.sym_sizes(), ", expected input", args.batch(input).sym_sizes(),
                  " to have ", channels, " channels, but got ", actual, " channels instead; ", op_,
                  ": expected input to have ", channels, " channels for groups=", args.groups,
                  " and weight of size ", weight.sym_sizes(), ", but got a tensor of size ",
                  input.sym_sizes());
}

void ArgumentReader::check_per_channel(const Conv2dArguments& args, const char* name,
                                       const std::optional<at::Tensor>& tensor,
                                       const at::Tensor& weight) const {
  if (!is_given(tensor)) return;
  const SymInt& count = of_.transposed ? args.c : args.k;
  const auto message = [&] {
    return c10::str("Given ", of_.transposed ? "transposed=1, " : "", "weight of size ",
                    weight.sym_sizes(), ", expected ", name, " to be 1-dimensional with ", count,
                    " elements, but got ", name, " of size ", tensor->sym_sizes(), " instead; ",
                    op_, ": expected ", name, " to be 1-D and to have ", count,
                    " elements, one for each ",
                    of_.transposed ? "channel of the result" : "filter of weight",
                    ", but got a tensor of size ", tensor->sym_sizes());
  };
  TORCH_CHECK(tensor->dim() == 1, message());
  TORCH_SYM_CHECK(tensor->sym_size(0).sym_eq(count), message());
}

void ArgumentReader::set_output(Conv2dArguments& args) const {
  const SymInt h = args.h + args.padding[0] + args.padding[1];
  const SymInt w = args.w + args.padding[2] + args.padding[3];
  const SymInt r = args.dilation[0] * (args.r - 1) + 1;
  const SymInt s = args.dilation[1] * (args.s - 1) + 1;
  TORCH_SYM_CHECK(
      h.sym_ge(r).sym_and(w.sym_ge(s)), "Calculated padded input size per channel: ", pixels(h, w),
      ". Kernel size: ", pixels(r, s), ". Kernel size can't be greater than actual input size; ",
      op_, ": expected the kernel to fit into the padded input, but the kernel spans ",
      pixels(r, s), " with its dilation and the padded input is ", pixels(h, w));
  args.p = (h - r) / args.stride[0] + 1;
  args.q = (w - s) / args.stride[1] + 1;
}

void ArgumentReader::check_result_size(const Conv2dArguments& args, const char* name,
                                       const at::Tensor& tensor) const {
  const auto size = args.result_size();
  const auto message = [&] {
    return c10::str(op_, ": expected ", name, " to have the size of the output, ",
                    SymIntArrayRef(size), ", but got a tensor of size ", tensor.sym_sizes());
  };
  TORCH_CHECK(tensor.dim() == static_cast<int64_t>(size.size()), message());
  for (size_t i = 0; i < size.size(); ++i) {
    TORCH_SYM_CHECK(tensor.sym_sizes()[i].sym_eq(size[i]), message());
  }
}

at::MemoryFormat ArgumentReader::result_format(const Conv2dArguments& args,
                                               std::optional<at::MemoryFormat> memory_format,
                                               const at::Tensor& first, const at::Tensor& second,
                                               bool holds_n) const {
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format == at::MemoryFormat::Contiguous ||
                    *memory_format == at::MemoryFormat::ChannelsLast,
                op_, ": expected memory_format to be contiguous or channels_last, but got ",
                *memory_format);
  }
  if (TORCH_GUARD_OR_FALSE(args.c.sym_eq(0)) ||
      (holds_n && TORCH_GUARD_OR_FALSE(args.n.sym_eq(0)))) {
    return at::MemoryFormat::Contiguous;
  }
  return memory_format.value_or(is_channels_last(first) || is_channels_last(second)
                                    ? at::MemoryFormat::ChannelsLast
                                    : at::MemoryFormat::Contiguous);
}

void ArgumentReader::check_most(const char* name, SymIntArrayRef values) const {
  for (const SymInt& value : values) {
    TORCH_SYM_CHECK(value.sym_le(kMostOfAnArgument), op_, ": expected each value of ", name,
                    " to be at most ", kMostOfAnArgument, ", but got ", values);
  }
}

void ArgumentReader::check_least(const char* name, SymIntArrayRef values, int64_t least) const {
  for (const SymInt& value : values) {
    TORCH_SYM_CHECK(value.sym_ge(least), least == 0 ? "negative " : "non-positive ", name,
                    " is not supported; ", op_, ": expected each value of ", name,
                    " to be at least ", least, ", but got ", values);
  }
}

}  // namespace haloconv
