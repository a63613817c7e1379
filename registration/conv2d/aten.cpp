#include "registration/conv2d/aten.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace haloconv::aten {
namespace {

using c10::SymInt;

// The operands have been cast already; without this ATen would cast them once more.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

// ATen pads opposite sides alike. So it pads by what both sides need; what one side needs beyond
// that is appended to the input beforehand.
struct Padding {
  explicit Padding(const Conv2dArguments& args) {
    const auto& [top, bottom, left, right] = args.padding;
    shared = {std::min(top, bottom), std::min(left, right)};
    rest = {left - shared[1], right - shared[1], top - shared[0], bottom - shared[0]};
  }

  bool is_even() const {
    return std::all_of(rest.begin(), rest.end(), [](const SymInt& side) { return side == 0; });
  }

  at::Tensor pad(const at::Tensor& input) const {
    return is_even() ? input : at::constant_pad_nd_symint(input, rest, 0);
  }

  std::array<SymInt, 2> shared;  // rows, columns
  std::array<SymInt, 4> rest;    // left, right, top, bottom: constant_pad_nd's order
};

// A tensor from which ATen reads the size and the layout, but no element. One element stands for
// all, unless the tensor must be channels_last, as an expanded one never is.
at::Tensor placeholder(const std::array<SymInt, 4>& size, const at::TensorOptions& options,
                       at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast) return at::empty_symint(size, options, format);
  return at::empty({1}, options).expand_symint(size);
}

// Dimensions of one element get the strides that Meta kernels promise; contiguous() keeps any.
at::Tensor with_format(const at::Tensor& tensor, at::MemoryFormat format) {
  const at::Tensor dense = tensor.contiguous(format);
  at::DimVector strides = c10::contiguous_strides(dense.sizes());
  if (format == at::MemoryFormat::ChannelsLast) {
    strides = c10::get_channels_last_strides_2d(dense.sizes());
  }
  return dense.strides() == at::IntArrayRef(strides) ? dense
                                                     : dense.as_strided(dense.sizes(), strides);
}

// On a CPU, ATen's weight gradients of groups are wrong if the weight is channels_last and a single
// image is too, but for the stride of n: image.permute(2, 0, 1).unsqueeze(0) is such an image. This
// gives it the stride of n that a channels_last tensor has.
at::Tensor with_usual_stride(const at::Tensor& images) {
  const bool is_odd = images.is_cpu() && images.size(0) == 1 && !is_channels_last(images) &&
                      images.is_contiguous(at::MemoryFormat::ChannelsLast);
  return is_odd ? with_format(images, at::MemoryFormat::ChannelsLast) : images;
}

const std::array<SymInt, 2> kNoOutputPadding = {0, 0};

// The value at complex tensors of a bilinear function f of real tensors.
template <class Function>
at::Tensor complex_bilinear(const at::Tensor& a, const at::Tensor& b, Function f) {
  const at::Tensor a_real = at::real(a), a_imag = at::imag(a);
  const at::Tensor b_real = at::real(b), b_imag = at::imag(b);
  return at::complex(f(a_real, b_real) - f(a_imag, b_imag), f(a_real, b_imag) + f(a_imag, b_real));
}

// ATen's gradients of input, weight and bias, those of them that are `wanted`.
std::tuple<at::Tensor, at::Tensor, at::Tensor> real_backward(
    const Conv2dArguments& args, const Padding& padding, const at::Tensor& grad_output,
    const at::Tensor& input, const at::Tensor& weight, std::array<bool, 3> wanted) {
  return at::convolution_backward_symint(grad_output, input, weight, c10::SymIntArrayRef(args.k),
                                         args.stride, padding.shared, args.dilation,
                                         /*transposed=*/false, kNoOutputPadding, args.groups,
                                         wanted);
}

// The gradient of the input, given that of the padded input.
at::Tensor without_padding(const Conv2dArguments& args, const Padding& padding,
                           const at::Tensor& grad_padded) {
  if (padding.is_even()) return grad_padded;
  const SymInt &left = padding.rest[0], &top = padding.rest[2];
  return grad_padded.slice_symint(2, top, top + args.h)
      .slice_symint(3, left, left + args.w)
      .clone(args.memory_format);
}

at::Tensor real_dgrad(const Conv2dArguments& args, const Padding& padding,
                      const at::Tensor& grad_output, const at::Tensor& weight,
                      const at::Tensor& input) {
  // An input that has the result's layout is used as it is, which saves a placeholder.
  if (padding.is_even() && input.defined() && input.suggest_memory_format() == args.memory_format) {
    return std::get<0>(
        real_backward(args, padding, grad_output, input, weight, {true, false, false}));
  }
  const auto& [left, right, top, bottom] = padding.rest;
  const std::array<SymInt, 4> padded = {args.n, args.c, args.h + top + bottom,
                                        args.w + left + right};
  return without_padding(
      args, padding,
      std::get<0>(real_backward(args, padding, grad_output,
                                placeholder(padded, grad_output.options(), args.memory_format),
                                with_format(weight, args.memory_format), {true, false, false})));
}

at::Tensor real_wgrad(const Conv2dArguments& args, const Padding& padding,
                      const at::Tensor& grad_output, const at::Tensor& padded_input) {
  const at::Tensor weight =
      placeholder(args.weight_size(), grad_output.options(), at::MemoryFormat::Contiguous);
  return std::get<1>(
      real_backward(args, padding, grad_output, padded_input, weight, {false, true, false}));
}

// A tensor of zeros: the sum over no image or no channel.
at::Tensor zeros(c10::SymIntArrayRef size, const at::Tensor& like) {
  return at::zeros_symint(size, like.options());
}

}  // namespace

at::Tensor fprop(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias) {
  const NoAutocast no_autocast;
  const Padding padding(args);
  const at::Tensor padded = padding.pad(input);
  // What conv2d calls for a batch of real images, one dispatch earlier.
  const at::Tensor output =
      input.is_complex()
          ? at::conv2d_symint(padded, weight, bias, args.stride, padding.shared, args.dilation,
                              args.groups)
          : at::convolution_symint(padded, weight, bias, args.stride, padding.shared, args.dilation,
                                   /*transposed=*/false, kNoOutputPadding, args.groups);
  return with_format(output, args.memory_format);
}

at::Tensor transposed(const Conv2dArguments& args, const at::Tensor& input,
                      const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (args.c == 0) return zeros(args.input_size(), input);
  const NoAutocast no_autocast;
  // With the padding that opposite sides share, and output_padding if the result needs it, ATen
  // gives as many rows and columns as the result has, or more on the sides that have more padding.
  const Padding padding(args);
  const auto& [left, right, top, bottom] = padding.rest;
  const auto output_padding = [&](int axis, const SymInt& size, const SymInt& taken,
                                  const SymInt& kernel, const SymInt& before) {
    const SymInt computed = (taken - 1) * args.stride[axis] - 2 * padding.shared[axis] +
                            args.dilation[axis] * (kernel - 1) + 1;
    return std::max(SymInt(0), before + size - computed);
  };
  const std::array<SymInt, 2> more = {output_padding(0, args.h, args.p, args.r, top),
                                      output_padding(1, args.w, args.q, args.s, left)};
  const at::Tensor output =
      input.is_complex()
          ? at::conv_transpose2d_symint(input, weight, bias, args.stride, padding.shared, more,
                                        args.groups, args.dilation)
          : at::convolution_symint(input, weight, bias, args.stride, padding.shared, args.dilation,
                                   /*transposed=*/true, more, args.groups);
  return with_format(without_padding(args, padding, output), args.memory_format);
}

at::Tensor dgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& weight, const at::Tensor& input) {
  if (args.n == 0 || args.c == 0) {
    return zeros(args.input_size(), grad_output);
  }
  const NoAutocast no_autocast;
  const Padding padding(args);
  const auto real = [&](const at::Tensor& g, const at::Tensor& w) {
    return real_dgrad(args, padding, g, w, grad_output.is_complex() ? at::Tensor() : input);
  };
  return with_format(grad_output.is_complex() ? complex_bilinear(grad_output, weight, real)
                                              : real(grad_output, weight),
                     args.memory_format);
}

at::Tensor wgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& input) {
  if (args.n == 0 || args.c == 0) {
    return with_format(zeros(args.weight_size(), grad_output), args.memory_format);
  }
  const NoAutocast no_autocast;
  const Padding padding(args);
  const at::Tensor padded = padding.pad(input);
  const auto real = [&](const at::Tensor& g, const at::Tensor& x) {
    return real_wgrad(args, padding, g, x);
  };
  return with_format(grad_output.is_complex() ? complex_bilinear(grad_output, padded, real)
                                              : real(grad_output, padded),
                     args.memory_format);
}

at::Tensor sum_over_pixels(const at::Tensor& grad_output) {
  if (grad_output.scalar_type() == at::kComplexHalf) {  // which ATen does not add up on a CPU
    return at::complex(sum_over_pixels(at::real(grad_output)),
                       sum_over_pixels(at::imag(grad_output)));
  }
  return grad_output.dim() == 4 ? grad_output.sum({0, 2, 3}) : grad_output.sum({1, 2});
}

std::tuple<at::Tensor, at::Tensor> wgrad_bias(const Conv2dArguments& args,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& input) {
  return {wgrad(args, grad_output, input), sum_over_pixels(grad_output)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const Conv2dBackwardArguments& args,
                                                        const at::Tensor& grad_output,
                                                        const at::Tensor& input,
                                                        const at::Tensor& weight, bool with_bias) {
  if (args.dgrad.n == 0 || args.dgrad.c == 0 || grad_output.is_complex()) {
    return {dgrad(args.dgrad, grad_output, weight), wgrad(args.wgrad, grad_output, input),
            !with_bias          ? at::Tensor()
            : args.dgrad.c == 0 ? zeros({args.dgrad.k}, grad_output)  // which has no channels
                                : sum_over_pixels(grad_output)};
  }
  const NoAutocast no_autocast;
  const Padding padding(args.dgrad);
  const auto [grad_padded, grad_weight, grad_bias] =
      real_backward(args.dgrad, padding, grad_output, with_usual_stride(padding.pad(input)), weight,
                    {true, true, with_bias});
  return {with_format(without_padding(args.dgrad, padding, grad_padded), args.dgrad.memory_format),
          with_format(grad_weight, args.wgrad.memory_format), grad_bias};
}

}  // namespace haloconv::aten
