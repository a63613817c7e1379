// The public C++ interface of haloconv: conv2d, conv_transpose2d, conv1d and conv_transpose1d,
// their fused forms and their gradients; what runs, and how to overrule it.
//
// Every call goes through PyTorch's dispatcher: gradients of any order, autocast, vmap, Meta
// tensors and tracing work as they do for at::conv2d. A wrong argument raises c10::Error with a
// message that names the argument, what it was and what was expected.
//
// Tensors are 4-D, or 3-D without the batch, as at::conv2d takes them:
//   input (n, c, h, w), weight (k, c/groups, r, s), bias (k), output and grad_output (n, k, p, q),
//   p = (h + top + bottom - dilation * (r - 1) - 1) / stride + 1, rounded down; q in the same way.
// All tensors of a call are on one device, CPU or CUDA, and have one dtype, as the results do. It
// may be any dtype that at::conv2d takes there, for gradients any dtype for which it has gradients.
// The output is defined as for torch.nn.functional.conv2d: a sum over channels and taps of input
// times weight, without a flip of the filter, plus bias; outside input there are zeros. stride and
// dilation hold one or two values (rows, columns); padding holds one, two (rows, columns) or four
// (top, bottom, left, right).
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#define HALOCONV_API __attribute__((visibility("default")))

namespace haloconv {

// "0.1.0" for version 0.1.0.
HALOCONV_API const char* version();

// Whether the library was built with its CUDA kernels. Without them no operator takes CUDA tensors.
HALOCONV_API bool has_cuda();

// The result is channels_last if input or weight is, otherwise contiguous, and so is the gradient
// of input; the gradient of weight has weight's own layout.
HALOCONV_API at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias = {},
                               at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
                               at::IntArrayRef dilation = 1, int64_t groups = 1);

// padding "valid" is none. "same" keeps h and w at stride 1; an odd pixel of padding goes to the
// bottom or the right.
HALOCONV_API at::Tensor conv2d_named_padding(const at::Tensor& input, const at::Tensor& weight,
                                             const std::optional<at::Tensor>& bias,
                                             at::IntArrayRef stride, std::string_view padding,
                                             at::IntArrayRef dilation = 1, int64_t groups = 1);

// The same under conv2d's name. It is a template, so that a padding of 0 is a number and not a null
// string.
template <std::convertible_to<std::string_view> Name>
at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                  const Name& padding, at::IntArrayRef dilation = 1, int64_t groups = 1) {
  return conv2d_named_padding(input, weight, bias, stride, padding, dilation, groups);
}

// What conv2d_fused does to conv2d's result: activation(result * scale + shift + residual).
struct Conv2dFusion {
  std::optional<at::Tensor> scale = {}, shift = {};  // (k)
  std::optional<at::Tensor> residual = {};           // of the result's size: nothing is broadcast
  // "none", "relu", "leaky_relu" (negative_slope = 0.01), "clamp" (min, max), "hardtanh"
  // (min_val = -1, max_val = 1), "relu6", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh",
  // "hardswish", "hardsigmoid", "mish" or "elu" (alpha = 1). "hardtanh" and "relu6" differ from
  // "clamp" in the gradient at a bound, which is 0.
  std::string activation = "none";
  std::vector<double> activation_arguments = {};  // all of those in parentheses, or none
};

// conv2d, and what follows it. On CUDA the kernel that writes conv2d's result computes that too, if
// it can; otherwise it is computed in place on the result. All tensors have input's dtype and
// device. The result is like conv2d's, but for integers it has the dtype that ATen's activation
// gives.
//
// Differentiable to any order. Compared with conv2d, the backward pass keeps no image but the
// result if the activation's derivative follows from that (none, relu, hardtanh, relu6,
// sigmoid, tanh, and leaky_relu and elu with no negative argument). For other activations it keeps
// the activation's input if there is a residual, or if neither weight nor scale needs a gradient;
// otherwise it keeps no image and convolves again.
HALOCONV_API at::Tensor conv2d_fused(const at::Tensor& input, const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias = {},
                                     const Conv2dFusion& fusion = {}, at::IntArrayRef stride = 1,
                                     at::IntArrayRef padding = 0, at::IntArrayRef dilation = 1,
                                     int64_t groups = 1);

// conv_transpose2d, conv1d and conv_transpose1d are related to conv2d as ATen's functions of these
// names are, and have all that it has, with parameters in ATen's order. Their gradients and their
// kernels are conv2d's: no zero between pixels is multiplied.
//
// conv_transpose2d is the gradient of a convolution's input as a layer of its own:
//   input (n, c, h, w), weight (c, k/groups, r, s), bias (k), output (n, k, p, q),
//   p = (h - 1) * stride - top - bottom + dilation * (r - 1) + output_padding + 1; q in the same
//   way.
// padding removes rows and columns from the output: one, two (rows, columns) or four values (top,
// bottom, left, right). output_padding adds some at the bottom and right: one or two values,
// smaller than stride or dilation. The output is channels_last if input or weight is, otherwise
// contiguous.
HALOCONV_API at::Tensor conv_transpose2d(const at::Tensor& input, const at::Tensor& weight,
                                         const std::optional<at::Tensor>& bias = {},
                                         at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
                                         at::IntArrayRef output_padding = 0, int64_t groups = 1,
                                         at::IntArrayRef dilation = 1);

// fusion.scale and fusion.shift are (k), with output's k.
HALOCONV_API at::Tensor conv_transpose2d_fused(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {},
    const Conv2dFusion& fusion = {}, at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
    at::IntArrayRef output_padding = 0, int64_t groups = 1, at::IntArrayRef dilation = 1);

// conv1d: input (n, c, w) or (c, w), weight (k, c/groups, s), bias (k), output (n, k, q) or (k, q),
// q = (w + left + right - dilation * (s - 1) - 1) / stride + 1, rounded down. padding is one value
// or two (left, right); a causal convolution has {dilation * (s - 1), 0}. The output has its
// channels innermost (the strides of a transposed (n, q, k) tensor) if input or weight has,
// otherwise it is contiguous, as ATen's always is.
HALOCONV_API at::Tensor conv1d(const at::Tensor& input, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias = {},
                               at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
                               at::IntArrayRef dilation = 1, int64_t groups = 1);

// padding is "valid" or "same", as for conv2d.
HALOCONV_API at::Tensor conv1d_named_padding(const at::Tensor& input, const at::Tensor& weight,
                                             const std::optional<at::Tensor>& bias,
                                             at::IntArrayRef stride, std::string_view padding,
                                             at::IntArrayRef dilation = 1, int64_t groups = 1);

template <std::convertible_to<std::string_view> Name>
at::Tensor conv1d(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                  const Name& padding, at::IntArrayRef dilation = 1, int64_t groups = 1) {
  return conv1d_named_padding(input, weight, bias, stride, padding, dilation, groups);
}

HALOCONV_API at::Tensor conv1d_fused(const at::Tensor& input, const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias = {},
                                     const Conv2dFusion& fusion = {}, at::IntArrayRef stride = 1,
                                     at::IntArrayRef padding = 0, at::IntArrayRef dilation = 1,
                                     int64_t groups = 1);

// conv_transpose2d for conv1d's tensors: weight (c, k/groups, s), padding one value or two (left,
// right), all other parameters one value.
HALOCONV_API at::Tensor conv_transpose1d(const at::Tensor& input, const at::Tensor& weight,
                                         const std::optional<at::Tensor>& bias = {},
                                         at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
                                         at::IntArrayRef output_padding = 0, int64_t groups = 1,
                                         at::IntArrayRef dilation = 1);

HALOCONV_API at::Tensor conv_transpose1d_fused(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {},
    const Conv2dFusion& fusion = {}, at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
    at::IntArrayRef output_padding = 0, int64_t groups = 1, at::IntArrayRef dilation = 1);

// The gradient of conv2d's input. input_size is (h, w). Without memory_format the result is
// channels_last if grad_output or weight is, otherwise contiguous.
HALOCONV_API at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                                     at::IntArrayRef input_size, at::IntArrayRef stride = 1,
                                     at::IntArrayRef padding = 0, at::IntArrayRef dilation = 1,
                                     int64_t groups = 1,
                                     std::optional<at::MemoryFormat> memory_format = {});

// The gradient of conv2d's weight. kernel_size is (r, s). Without memory_format the result is
// channels_last if grad_output or input is, otherwise contiguous.
HALOCONV_API at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                                     at::IntArrayRef kernel_size, at::IntArrayRef stride = 1,
                                     at::IntArrayRef padding = 0, at::IntArrayRef dilation = 1,
                                     int64_t groups = 1,
                                     std::optional<at::MemoryFormat> memory_format = {});

// The gradients of conv2d's weight and bias.
HALOCONV_API std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(
    const at::Tensor& grad_output, const at::Tensor& input, at::IntArrayRef kernel_size,
    at::IntArrayRef stride = 1, at::IntArrayRef padding = 0, at::IntArrayRef dilation = 1,
    int64_t groups = 1, std::optional<at::MemoryFormat> memory_format = {});

// The gradients of conv2d's input, weight and bias: what conv2d_dgrad and conv2d_wgrad_bias give
// with these memory formats. Without with_bias the gradient of bias is undefined. If `aten` runs,
// this is quicker than two calls.
HALOCONV_API std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride = 1, at::IntArrayRef padding = 0, at::IntArrayRef dilation = 1,
    int64_t groups = 1, bool with_bias = false, std::optional<at::MemoryFormat> input_format = {},
    std::optional<at::MemoryFormat> weight_format = {});

// Which implementation conv2d or one of its gradients (direction "fprop", "dgrad" or "wgrad") would
// use for these arguments by the automatic choice, and why each other one declined. For wgrad, bias
// is given if its gradient is computed too.
HALOCONV_API std::string explain(const at::Tensor& input, const at::Tensor& weight,
                                 const std::optional<at::Tensor>& bias = {},
                                 at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
                                 at::IntArrayRef dilation = 1, int64_t groups = 1,
                                 std::string_view direction = "fprop");

// The same for the other operators. direction names the operator's own direction. For example, the
// "fprop" of a transposed convolution is explained as the dgrad of the 2-D convolution, which is
// what runs.
HALOCONV_API std::string conv_transpose2d_explain(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {},
    at::IntArrayRef stride = 1, at::IntArrayRef padding = 0, at::IntArrayRef output_padding = 0,
    int64_t groups = 1, at::IntArrayRef dilation = 1, std::string_view direction = "fprop");

HALOCONV_API std::string conv1d_explain(const at::Tensor& input, const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias = {},
                                        at::IntArrayRef stride = 1, at::IntArrayRef padding = 0,
                                        at::IntArrayRef dilation = 1, int64_t groups = 1,
                                        std::string_view direction = "fprop");

HALOCONV_API std::string conv_transpose1d_explain(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {},
    at::IntArrayRef stride = 1, at::IntArrayRef padding = 0, at::IntArrayRef output_padding = 0,
    int64_t groups = 1, at::IntArrayRef dilation = 1, std::string_view direction = "fprop");

// While it lives, every convolution of the calling thread runs the implementation of that name: a
// group of kernel families ("sm90", "sm80" or "generic"), a single family as explain names it,
// "aten", or the automatic choice ("auto"). So do the backward passes of these convolutions,
// whenever and in whatever thread they run, except those that torch.compile has made: they run what
// is forced in the thread that runs them. If the implementation declines a call, the call raises an
// error with the reason; on the CPU all families decline. Objects that live at the same time in a
// thread must end in the reverse order of their making.
class HALOCONV_API ForceImplementation {
 public:
  explicit ForceImplementation(std::string_view name);
  ~ForceImplementation();
  ForceImplementation(const ForceImplementation&) = delete;
  ForceImplementation& operator=(const ForceImplementation&) = delete;

 private:
  std::string previous_;
};

// Refers to the library from every program that includes this header. Linkers drop a library of
// which no symbol is used, and scripted models would then not find its operators.
[[gnu::used]] inline constexpr auto kAnchor = &version;

}  // namespace haloconv
