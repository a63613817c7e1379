#include "registration/conv2d_aten.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
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

// The operands have been cast already, and ATen would cast them once more.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

// ATen pads opposite sides alike. What they share is left to it; the rest, on one side of each
// axis, is padding of the input itself.
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

// A tensor of which ATen reads no element but the size: one element stands for all.
at::Tensor size_only(const std::array<SymInt, 4>& size, const at::TensorOptions& options) {
  return at::empty({1}, options).expand_symint(size);
}

// contiguous() keeps whatever strides one-element dimensions have; Meta promises certain ones.
at::Tensor with_format(const at::Tensor& tensor, at::MemoryFormat format) {
  const at::Tensor dense = tensor.contiguous(format);
  at::DimVector strides = c10::contiguous_strides(dense.sizes());
  if (format == at::MemoryFormat::ChannelsLast) {
    strides = c10::get_channels_last_strides_2d(dense.sizes());
  }
  return dense.strides() == at::IntArrayRef(strides) ? dense
                                                     : dense.as_strided(dense.sizes(), strides);
}

const std::array<SymInt, 2> kNoOutputPadding = {0, 0};

// A bilinear function of complex tensors by one that takes real tensors.
template <class Function>
at::Tensor complex_bilinear(const at::Tensor& a, const at::Tensor& b, Function f) {
  const at::Tensor a_real = at::real(a), a_imag = at::imag(a);
  const at::Tensor b_real = at::real(b), b_imag = at::imag(b);
  return at::complex(f(a_real, b_real) - f(a_imag, b_imag), f(a_real, b_imag) + f(a_imag, b_real));
}

// ATen's gradients by input, weight and bias, those that `wanted` names.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const Conv2dArguments& args, const Padding& padding, const at::Tensor& grad_output,
    const at::Tensor& input, const at::Tensor& weight, std::array<bool, 3> wanted) {
  return at::convolution_backward_symint(grad_output, input, weight, c10::SymIntArrayRef(args.k),
                                         args.stride, padding.shared, args.dilation,
                                         /*transposed=*/false, kNoOutputPadding, args.groups,
                                         wanted);
}

at::Tensor real_dgrad(const Conv2dArguments& args, const Padding& padding,
                      const at::Tensor& grad_output, const at::Tensor& weight) {
  const auto& [left, right, top, bottom] = padding.rest;
  const std::array<SymInt, 4> padded = {args.n, args.c, args.h + top + bottom,
                                        args.w + left + right};
  // ATen computes in channels_last where the weight's strides say so; it is small beside
  // grad_output. contiguous() would leave those of a depthwise or 1x1 weight, which lies alike in
  // both formats.
  const at::Tensor grad_padded =
      std::get<0>(backward(args, padding, grad_output, size_only(padded, grad_output.options()),
                           with_format(weight, args.memory_format), {true, false, false}));
  if (padding.is_even()) {
    return grad_padded;
  }
  return grad_padded.slice_symint(2, top, top + args.h)
      .slice_symint(3, left, left + args.w)
      .clone(args.memory_format);
}

at::Tensor real_wgrad(const Conv2dArguments& args, const Padding& padding,
                      const at::Tensor& grad_output, const at::Tensor& padded_input) {
  return std::get<1>(backward(args, padding, grad_output, padded_input,
                              size_only(args.weight_size(), grad_output.options()),
                              {false, true, false}));
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
  // What conv2d calls of a batch of real images, one dispatch sooner.
  const at::Tensor output =
      input.is_complex()
          ? at::conv2d_symint(padded, weight, bias, args.stride, padding.shared, args.dilation,
                              args.groups)
          : at::convolution_symint(padded, weight, bias, args.stride, padding.shared, args.dilation,
                                   /*transposed=*/false, kNoOutputPadding, args.groups);
  return with_format(output, args.memory_format);
}

at::Tensor dgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& weight) {
  if (args.n == 0 || args.c == 0) {
    return zeros(args.input_size(), grad_output);
  }
  const NoAutocast no_autocast;
  const Padding padding(args);
  const auto real = [&](const at::Tensor& g, const at::Tensor& w) {
    return real_dgrad(args, padding, g, w);
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

std::tuple<at::Tensor, at::Tensor> wgrad_bias(const Conv2dArguments& args,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& input) {
  return {wgrad(args, grad_output, input), grad_output.sum({0, 2, 3})};
}

}  // namespace haloconv::aten
