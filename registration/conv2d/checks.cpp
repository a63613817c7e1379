#include "registration/conv2d/checks.h"

#include <c10/util/Exception.h>

#include <string>

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;
using Pair = std::array<SymInt, 2>;

bool is_input(std::string_view name) { return name == "input"; }

// What ATen says of a wrong number of values.
std::string atens_words_on_count(const char* name, SymIntArrayRef values) {
  return c10::str("expected ", name,
                  " to be a single integer value or a list of 2 values to match ",
                  "the convolution dimensions, but got ", name, "=", values);
}

// Reads the arguments of one call. Where ATen's convolution would refuse a call, its words begin
// the message, for who looks for them; `op` and what was expected follow.
class Reader {
 public:
  explicit Reader(const char* op) : op_(op) {}

  // Whether `tensor` (n, ...) carries its n.
  bool check_batch(const char* name, const at::Tensor& tensor) const {
    TORCH_CHECK(
        tensor.dim() == 3 || tensor.dim() == 4,
        op_after(is_input(name), "Expected 3D (unbatched) or 4D (batched) input to conv2d, ",
                 "but got input of size: ", tensor.sym_sizes()),
        ": expected ", name, " to be 4-D, or 3-D without the batch, but got a tensor of size ",
        tensor.sym_sizes());
    return tensor.dim() == 4;
  }

  void check_alike(const char* name, const at::Tensor& tensor, const char* first_name,
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

  Pair pair(const char* name, SymIntArrayRef values, int64_t least) const {
    TORCH_CHECK(values.size() == 1 || values.size() == 2, atens_words_on_count(name, values), "; ",
                op_, ": expected ", name, " to have 1 or 2 values, but got ", values);
    check_least(name, values, least);
    return {values.front(), values.back()};
  }

  Pair check_dilation(SymIntArrayRef dilation) const {
    for (const SymInt& value : dilation) {  // ATen has other words for 0
      TORCH_SYM_CHECK(value.sym_ge(0), "dilation should be greater than zero; ", op_,
                      ": expected each value of dilation to be at least 1, but got ", dilation);
    }
    check_most("dilation", dilation);
    return pair("dilation", dilation, 1);
  }

  std::array<SymInt, 4> sides(const char* name, SymIntArrayRef values) const {
    TORCH_CHECK(values.size() == 1 || values.size() == 2 || values.size() == 4,
                atens_words_on_count(name, values), "; ", op_, ": expected ", name,
                " to have 1, 2 or 4 values (top, bottom, left, right), but got ", values);
    check_least(name, values, 0);
    if (values.size() == 4) {
      return {values[0], values[1], values[2], values[3]};
    }
    return {values.front(), values.front(), values.back(), values.back()};
  }

  void set_parameters(Conv2dArguments& args, const Conv2dParameters& parameters) const {
    const auto& [stride, padding, dilation, groups] = parameters;
    args.stride = pair("stride", stride, 1);
    args.padding = sides("padding", padding);
    args.dilation = check_dilation(dilation);
    check_most("padding", padding);
    TORCH_SYM_CHECK(groups.sym_ge(1), "non-positive groups is not supported; ", op_,
                    ": expected groups to be at least 1, but got ", groups);
    args.groups = groups;
  }

  void set_input(Conv2dArguments& args, const char* name, const at::Tensor& input) const {
    args.batched = check_batch(name, input);
    args.n = args.batched ? input.sym_size(0) : SymInt(1);
    args.c = input.sym_size(-3);
    args.h = input.sym_size(-2);
    args.w = input.sym_size(-1);
    TORCH_SYM_CHECK(args.h.sym_ge(1).sym_and(args.w.sym_ge(1)),
                    "Only zero batch or zero channel inputs are supported, but got input shape: ",
                    input.sym_sizes(), "; ", op_, ": expected ", name,
                    " to have rows and columns, but got a tensor of size ", input.sym_sizes());
  }

  void set_weight(Conv2dArguments& args, const at::Tensor& weight) const {
    check_weight(op_, weight);
    args.k = weight.sym_size(0);
    args.r = weight.sym_size(2);
    args.s = weight.sym_size(3);
    TORCH_SYM_CHECK(args.r.sym_ge(1).sym_and(args.s.sym_ge(1)), op_,
                    ": expected weight to have rows and columns, but got a tensor of size ",
                    weight.sym_sizes());
    check_filters(args, "weight", weight);
  }

  // The number of filters, k, as `tensor` has it.
  void check_filters(const Conv2dArguments& args, const char* name,
                     const at::Tensor& tensor) const {
    TORCH_SYM_CHECK(args.k.sym_ge(args.groups), "Given groups=", args.groups, ", expected ", name,
                    " to be at least ", args.groups, " at dimension 0, but got ", name, " of size ",
                    tensor.sym_sizes(), " instead; ", op_, ": expected ", name,
                    " to have at least ", args.groups, " output channels for groups=", args.groups,
                    ", but got a tensor of size ", tensor.sym_sizes());
    TORCH_SYM_CHECK((args.k % args.groups).sym_eq(0), "Given groups=", args.groups, ", expected ",
                    name, " to be divisible by ", args.groups, " at dimension 0, but got ", name,
                    " of size [", tensor.sym_sizes(), "] instead; ", op_, ": expected ", name,
                    " to have output channels divisible by groups=", args.groups,
                    ", but got a tensor of size ", tensor.sym_sizes());
  }

  // `tensor`, if there is one, holds a value for each filter.
  void check_per_filter(const Conv2dArguments& args, const char* name,
                        const std::optional<at::Tensor>& tensor, const at::Tensor& input,
                        const at::Tensor& weight) const {
    if (!is_given(tensor)) return;
    check_alike(name, *tensor, "input", input);
    const auto message = [&] {
      return c10::str("Given weight of size ", weight.sym_sizes(), ", expected ", name,
                      " to be 1-dimensional with ", args.k, " elements, but got ", name,
                      " of size ", tensor->sym_sizes(), " instead; ", op_, ": expected ", name,
                      " to be 1-D and to have ", args.k,
                      " elements, one for each filter of weight, but got a tensor of size ",
                      tensor->sym_sizes());
    };
    TORCH_CHECK(tensor->dim() == 1, message());
    TORCH_SYM_CHECK(tensor->sym_size(0).sym_eq(args.k), message());
  }

  // Sets p and q from all else.
  void set_output(Conv2dArguments& args) const {
    const SymInt h = args.h + args.padding[0] + args.padding[1];
    const SymInt w = args.w + args.padding[2] + args.padding[3];
    const SymInt r = args.dilation[0] * (args.r - 1) + 1;
    const SymInt s = args.dilation[1] * (args.s - 1) + 1;
    TORCH_SYM_CHECK(h.sym_ge(r).sym_and(w.sym_ge(s)), "Calculated padded input size per channel: (",
                    h, " x ", w, "). Kernel size: (", r, " x ", s,
                    "). Kernel size can't be greater than actual input size; ", op_,
                    ": expected the kernel to fit into the padded input, but the kernel spans (", r,
                    " x ", s, ") with its dilation and the padded input is (", h, " x ", w, ")");
    args.p = (h - r) / args.stride[0] + 1;
    args.q = (w - s) / args.stride[1] + 1;
  }

  // `tensor` must have the size of what the forward direction gives.
  void check_output_size(const Conv2dArguments& args, const char* name,
                         const at::Tensor& tensor) const {
    const auto expected = args.output_size();
    const auto size = SymIntArrayRef(expected).slice(args.batched ? 0 : 1);
    const auto message = [&] {
      return c10::str(op_, ": expected ", name, " to have the size of the output, ", size,
                      ", but got a tensor of size ", tensor.sym_sizes());
    };
    TORCH_CHECK(tensor.dim() == static_cast<int64_t>(size.size()), message());
    for (size_t i = 0; i < size.size(); ++i) {
      TORCH_SYM_CHECK(tensor.sym_sizes()[i].sym_eq(size[i]), message());
    }
  }

  // A given format, or channels_last where one of the 4-D operands is. A tensor without elements is
  // contiguous, as aten's results are.
  at::MemoryFormat result_format(const Conv2dArguments& args,
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
    const auto is_channels_last = [](const at::Tensor& tensor) {
      return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
    };
    return memory_format.value_or(is_channels_last(first) || is_channels_last(second)
                                      ? at::MemoryFormat::ChannelsLast
                                      : at::MemoryFormat::Contiguous);
  }

  const char* op() const { return op_; }

  void check_most(const char* name, SymIntArrayRef values) const {
    for (const SymInt& value : values) {
      TORCH_SYM_CHECK(value.sym_le(kMostOfAnArgument), op_, ": expected each value of ", name,
                      " to be at most ", kMostOfAnArgument, ", but got ", values);
    }
  }

 private:
  // What begins a message: `op`, after ATen's words if they are about this call.
  template <class... Words>
  std::string op_after(bool are_about_it, const Words&... atens_words) const {
    return are_about_it ? c10::str(atens_words..., "; ", op_) : std::string(op_);
  }

  void check_least(const char* name, SymIntArrayRef values, int64_t least) const {
    for (const SymInt& value : values) {
      TORCH_SYM_CHECK(value.sym_ge(least), least == 0 ? "negative " : "non-positive ", name,
                      " is not supported; ", op_, ": expected each value of ", name,
                      " to be at least ", least, ", but got ", values);
    }
  }

  const char* op_;
};

}  // namespace

std::array<SymInt, 4> Conv2dArguments::output_size() const {
  return {n, TORCH_GUARD_OR_FALSE(c.sym_eq(0)) ? SymInt(0) : k, p, q};
}

at::Tensor Conv2dArguments::batch(const at::Tensor& tensor) const {
  return batched ? tensor : tensor.unsqueeze(0);
}

at::Tensor Conv2dArguments::unbatch(const at::Tensor& tensor) const {
  return batched ? tensor : tensor.squeeze(0);
}

void check_defined(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), op, ": expected ", name, " to be a tensor, but got none");
}

void check_weight(const char* op, const at::Tensor& weight) {
  TORCH_CHECK(weight.dim() == 4, "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
              "-dimensional weight", weight.sym_sizes(), ", but got 4-dimensional input instead; ",
              op, ": expected weight to be 4-D, but got a tensor of size ", weight.sym_sizes());
}

void check_dilation(const char* op, SymIntArrayRef dilation) {
  Reader(op).check_dilation(dilation);
}

Conv2dArguments check_fprop(const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const Conv2dParameters& parameters, const char* op) {
  const Reader reader(op);
  Conv2dArguments args;
  reader.set_parameters(args, parameters);
  reader.check_alike("weight", weight, "input", input);
  reader.set_input(args, "input", input);
  reader.set_weight(args, weight);
  TORCH_SYM_CHECK(args.c.sym_eq(weight.sym_size(1) * args.groups), "Given groups=", args.groups,
                  ", weight of size ", weight.sym_sizes(), ", expected input",
                  args.batch(input).sym_sizes(), " to have ", weight.sym_size(1) * args.groups,
                  " channels, but got ", args.c, " channels instead; ", reader.op(),
                  ": expected input to have ", weight.sym_size(1) * args.groups,
                  " channels for groups=", args.groups, " and weight of size ", weight.sym_sizes(),
                  ", but got a tensor of size ", input.sym_sizes());
  reader.check_per_filter(args, "bias", bias, input, weight);
  reader.set_output(args);
  args.memory_format = reader.result_format(args, {}, args.batch(input), weight, true);
  return args;
}

Conv2dArguments check_fused(const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const Conv2dParameters& parameters, const Epilogue& epilogue) {
  constexpr const char* kOp = "haloconv::conv2d_fused";
  const Reader reader(kOp);
  Conv2dArguments args = check_fprop(input, weight, bias, parameters, kOp);
  reader.check_per_filter(args, "scale", epilogue.scale, input, weight);
  reader.check_per_filter(args, "shift", epilogue.shift, input, weight);
  if (is_given(epilogue.residual)) {
    reader.check_alike("residual", *epilogue.residual, "input", input);
    reader.check_output_size(args, "residual", *epilogue.residual);
  }
  return args;
}

Conv2dArguments check_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                            SymIntArrayRef input_size, const Conv2dParameters& parameters,
                            std::optional<at::MemoryFormat> memory_format) {
  const Reader reader("haloconv::conv2d_dgrad");
  Conv2dArguments args;
  reader.set_parameters(args, parameters);
  reader.check_alike("weight", weight, "grad_output", grad_output);
  args.batched = reader.check_batch("grad_output", grad_output);
  reader.set_weight(args, weight);
  const Pair size = reader.pair("input_size", input_size, 1);
  reader.check_most("input_size", input_size);
  args.n = args.batched ? grad_output.sym_size(0) : SymInt(1);
  args.c = weight.sym_size(1) * args.groups;
  args.h = size[0];
  args.w = size[1];
  reader.set_output(args);
  reader.check_output_size(args, "grad_output", grad_output);
  args.memory_format =
      reader.result_format(args, memory_format, args.batch(grad_output), weight, true);
  return args;
}

Conv2dArguments check_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                            SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                            std::optional<at::MemoryFormat> memory_format, const char* op) {
  const Reader reader(op);
  Conv2dArguments args;
  reader.set_parameters(args, parameters);
  reader.check_alike("input", input, "grad_output", grad_output);
  reader.set_input(args, "input", input);
  reader.check_batch("grad_output", grad_output);
  const Pair size = reader.pair("kernel_size", kernel_size, 1);
  reader.check_most("kernel_size", kernel_size);
  args.k = grad_output.sym_size(-3);
  args.r = size[0];
  args.s = size[1];
  TORCH_SYM_CHECK((args.c % args.groups).sym_eq(0), reader.op(),
                  ": expected input to have channels divisible by groups=", args.groups,
                  ", but got a tensor of size ", input.sym_sizes());
  // Without input channels aten's output has none either, so that k is not known.
  if (!TORCH_GUARD_OR_FALSE(args.c.sym_eq(0))) {
    reader.check_filters(args, "grad_output", grad_output);
  }
  reader.set_output(args);
  reader.check_output_size(args, "grad_output", grad_output);
  args.memory_format =
      reader.result_format(args, memory_format, args.batch(grad_output), args.batch(input), false);
  return args;
}

Conv2dBackwardArguments check_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                       const at::Tensor& weight, const Conv2dParameters& parameters,
                                       std::optional<at::MemoryFormat> input_format,
                                       std::optional<at::MemoryFormat> weight_format) {
  constexpr const char* kOp = "haloconv::conv2d_backward";
  const Reader reader(kOp);
  Conv2dArguments args = check_fprop(input, weight, {}, parameters, kOp);
  reader.check_alike("grad_output", grad_output, "input", input);
  reader.check_output_size(args, "grad_output", grad_output);
  const at::Tensor dy = args.batch(grad_output);
  Conv2dBackwardArguments both = {args, args};
  both.dgrad.memory_format = reader.result_format(args, input_format, dy, weight, true);
  both.wgrad.memory_format =
      reader.result_format(args, weight_format, dy, args.batch(input), false);
  return both;
}

Direction check_direction(std::string_view name) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
    if (name == name_of(direction)) return direction;
  }
  TORCH_CHECK(false, "haloconv::explain: expected direction to be \"fprop\", \"dgrad\" or ",
              "\"wgrad\", but got \"", name, "\"");
}

}  // namespace haloconv
