#include "registration/conv2d/checks.h"

#include <ATen/ops/constant_pad_nd.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>

#include "registration/conv2d/argument_reader.h"
#include "registration/conv2d/plain_arguments.h"

namespace haloconv {

using c10::SymInt;
using c10::SymIntArrayRef;
using Pair = ArgumentReader::Pair;

std::array<SymInt, 4> Conv2dArguments::output_size() const {
  return {n, TORCH_GUARD_OR_FALSE(c.sym_eq(0)) ? SymInt(0) : k, p, q};
}

std::vector<SymInt> Conv2dArguments::result_size() const {
  const auto [images, channels, rows, columns] = transposed ? input_size() : output_size();
  std::vector<SymInt> size;
  if (batched) size.push_back(images);
  size.push_back(channels);
  if (pixel_dims == 2) size.push_back(rows);
  size.push_back(columns);
  return size;
}

at::Tensor Conv2dArguments::batch(const at::Tensor& tensor) const {
  return batched ? tensor : tensor.unsqueeze(0);
}

at::Tensor Conv2dArguments::unbatch(const at::Tensor& tensor) const {
  return batched ? tensor : tensor.squeeze(0);
}

at::Tensor Conv2dArguments::filters(const at::Tensor& tensor) const {
  return pixel_dims == 2 ? tensor : tensor.unsqueeze(-2);
}

at::Tensor Conv2dArguments::images(const at::Tensor& tensor) const {
  return batched && pixel_dims == 2 ? tensor : filters(batch(tensor));
}

at::Tensor Conv2dArguments::result(const at::Tensor& images) const {
  if (batched && pixel_dims == 2) return images;
  return unbatch(pixel_dims == 2 ? images : images.squeeze(-2));
}

at::Tensor Conv2dArguments::operand(const at::Tensor& input) const {
  if (!has_zeros) return images(input);
  return at::constant_pad_nd_symint(images(input), {0, zeros[1], 0, zeros[0]}, 0);
}

void check_defined(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), op, ": expected ", name, " to be a tensor, but got none");
}

void check_weight(const char* op, const at::Tensor& weight, const ForwardOp& of,
                  const at::Tensor& input) {
  const int64_t dims = of.pixel_dims + 2, actual = weight.dim();
  const auto atens_input = [&] {
    if (!input.defined()) return c10::str(dims, "-dimensional input");
    const at::Tensor batch = input.dim() == dims - 1 ? input.unsqueeze(0) : input;
    return c10::str(batch.dim(), "-dimensional input of size ", batch.sym_sizes());
  };
  const auto atens_words = [&] {
    if (actual < 3) return std::string("weight should have at least three dimensions");
    return c10::str("Expected ", actual, "-dimensional input for ", actual, "-dimensional weight ",
                    weight.sym_sizes(), ", but got ", atens_input(), " instead");
  };
  TORCH_CHECK(actual == dims, atens_words(), "; ", op, ": expected weight to be ", dims,
              "-D, but got a tensor of size ", weight.sym_sizes());
}

void check_dilation(const char* op, SymIntArrayRef dilation, const ForwardOp& of) {
  ArgumentReader(op, of).check_dilation(dilation);
}

namespace {

// Sets the sizes of input and result, and the padding that the convolution has.
void set_transposed(const ArgumentReader& reader, Conv2dArguments& args,
                    const Pair& output_padding) {
  const Pair size = {args.h, args.w},
             span = {args.dilation[0] * (args.r - 1) + 1, args.dilation[1] * (args.s - 1) + 1};
  Pair taken, result;
  for (size_t i = 0; i < 2; ++i) {
    const SymInt& stride = args.stride[i];
    const SymInt &before = args.padding[2 * i], &dilation = args.dilation[i];
    SymInt& after = args.padding[2 * i + 1];
    TORCH_SYM_CHECK(
        output_padding[i].sym_lt(stride).sym_or(output_padding[i].sym_lt(dilation)),
        "output padding must be smaller than either stride or dilation, but got ",
        "output_padding_height: ", output_padding[0], " output_padding_width: ", output_padding[1],
        " stride_height: ", args.stride[0], " stride_width: ", args.stride[1],
        " dilation_height: ", args.dilation[0], " dilation_width: ", args.dilation[1], "; ",
        reader.op(), ": expected each value of output_padding to be smaller than that of stride ",
        "or of dilation");
    result[i] = (size[i] - 1) * stride - before - after + span[i] + output_padding[i];
    taken[i] = size[i];
    if (output_padding[i] >= stride) {
      after = after - (output_padding[i] - (stride - 1));
      if (after < 0) {
        args.zeros[i] = (stride - 1 - after) / stride;  // -after / stride, rounded up
        args.has_zeros = true;
        after = after + args.zeros[i] * stride;
        taken[i] = taken[i] + args.zeros[i];
      }
    }
  }
  const auto pixels = [&](const Pair& size) {
    return args.pixel_dims == 2 ? c10::str("(", size[0], " x ", size[1], ")")
                                : c10::str("(", size[1], ")");
  };
  TORCH_SYM_CHECK(result[0].sym_ge(1).sym_and(result[1].sym_ge(1)),
                  "Given input size per channel: ", pixels(size),
                  ". Calculated output size per channel: ", pixels(result),
                  ". Output size is too small; ", reader.op(),
                  ": expected the padding to leave something of the result");
  args.transposed = true;
  std::tie(args.p, args.q) = std::tie(taken[0], taken[1]);
  std::tie(args.h, args.w) = std::tie(result[0], result[1]);
}

}  // namespace

Conv2dArguments check_forward(const ForwardOp& op, const at::Tensor& input,
                              const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              const ForwardParameters& parameters, const char* name) {
  Conv2dArguments args;
  const bool is_conv2d = !op.transposed && op.pixel_dims == 2;
  if (is_conv2d && read_plain_conv2d(args, input, weight, bias, parameters)) return args;
  const ArgumentReader reader(name, op);
  check_defined(name, "input", input);
  check_defined(name, "weight", weight);
  if (!op.transposed) reader.check_bias_type(bias, input);
  reader.set_input(args, "input", input);
  check_weight(name, weight, op, input);
  reader.set_parameters(args, parameters, parameters.output_padding);
  Pair output_padding;
  if (op.transposed) {
    output_padding = reader.pair("output_padding", parameters.output_padding, 0, /*of_row=*/0);
    reader.check_most("output_padding", parameters.output_padding);
    reader.check_most("stride", parameters.stride);
  }
  reader.set_weight(args, weight);
  reader.check_channels(args, op.transposed ? args.k : weight.sym_size(1) * args.groups, input,
                        weight);
  if (op.transposed) args.c = weight.sym_size(1) * args.groups;
  reader.check_per_channel(args, "bias", bias, weight);
  if (!op.transposed) reader.set_output(args);
  reader.check_pixels(args, "input", input);
  reader.check_kernel(args, parameters.dilation, weight);
  if (op.transposed) set_transposed(reader, args, output_padding);
  reader.check_alike("weight", weight, "input", input);
  if (is_given(bias)) reader.check_alike("bias", *bias, "input", input);
  args.memory_format =
      reader.result_format(args, {}, args.images(input), args.filters(weight), true);
  return args;
}

Conv2dArguments check_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const ForwardParameters& parameters, const Epilogue& epilogue) {
  const ArgumentReader reader(op.fused, op);
  Conv2dArguments args = check_forward(op, input, weight, bias, parameters, op.fused);
  const auto check = [&](const char* name, const std::optional<at::Tensor>& tensor) {
    if (is_given(tensor)) reader.check_alike(name, *tensor, "input", input);
    reader.check_per_channel(args, name, tensor, weight);
  };
  check("scale", epilogue.scale);
  check("shift", epilogue.shift);
  if (is_given(epilogue.residual)) {
    reader.check_alike("residual", *epilogue.residual, "input", input);
    reader.check_result_size(args, "residual", *epilogue.residual);
  }
  return args;
}

Conv2dArguments check_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                            SymIntArrayRef input_size, const Conv2dParameters& parameters,
                            std::optional<at::MemoryFormat> memory_format) {
  const ArgumentReader reader("haloconv::conv2d_dgrad");
  Conv2dArguments args;
  reader.set_parameters(args, parameters);
  reader.check_alike("weight", weight, "grad_output", grad_output);
  args.batched = reader.check_batch("grad_output", grad_output);
  reader.set_weight(args, weight);
  reader.check_kernel(args, parameters.dilation, weight);
  const Pair size = reader.pair("input_size", input_size, 1);
  reader.check_most("input_size", input_size);
  args.n = args.batched ? grad_output.sym_size(0) : SymInt(1);
  args.c = weight.sym_size(1) * args.groups;
  args.h = size[0];
  args.w = size[1];
  reader.set_output(args);
  reader.check_result_size(args, "grad_output", grad_output);
  args.memory_format =
      reader.result_format(args, memory_format, args.batch(grad_output), weight, true);
  return args;
}

Conv2dArguments check_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                            SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                            std::optional<at::MemoryFormat> memory_format, const char* op) {
  const ArgumentReader reader(op);
  Conv2dArguments args;
  reader.set_parameters(args, parameters);
  reader.check_dilation(parameters.dilation);
  reader.check_alike("input", input, "grad_output", grad_output);
  reader.set_input(args, "input", input);
  reader.check_pixels(args, "input", input);
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
  reader.check_result_size(args, "grad_output", grad_output);
  args.memory_format =
      reader.result_format(args, memory_format, args.batch(grad_output), args.batch(input), false);
  return args;
}

Conv2dBackwardArguments check_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                       const at::Tensor& weight, const Conv2dParameters& parameters,
                                       std::optional<at::MemoryFormat> input_format,
                                       std::optional<at::MemoryFormat> weight_format) {
  constexpr const char* kOp = "haloconv::conv2d_backward";
  const ArgumentReader reader(kOp);
  Conv2dArguments args = check_forward(kConv2d, input, weight, {}, {parameters, {}}, kOp);
  reader.check_alike("grad_output", grad_output, "input", input);
  reader.check_result_size(args, "grad_output", grad_output);
  const at::Tensor dy = args.batch(grad_output);
  Conv2dBackwardArguments both = {args, args};
  both.dgrad.memory_format = reader.result_format(args, input_format, dy, weight, true);
  both.wgrad.memory_format =
      reader.result_format(args, weight_format, dy, args.batch(input), false);
  return both;
}

Direction check_direction(const ForwardOp& op, std::string_view name) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
    if (name != name_of(direction)) continue;
    if (!op.transposed || direction == Direction::kWgrad) return direction;
    return direction == Direction::kFprop ? Direction::kDgrad : Direction::kFprop;
  }
  TORCH_CHECK(false, op.explain, ": expected direction to be \"fprop\", \"dgrad\" or ",
              "\"wgrad\", but got \"", name, "\"");
}

}  // namespace haloconv
