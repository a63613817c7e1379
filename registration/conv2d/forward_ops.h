// The forward operators, conv2d and its relatives, as one table. A kernel is written once, as a
// function of a ForwardOp, and registered for each of them.
//
// A transposed convolution is the gradient of the input of the 2-D convolution with its parameters,
// and a 1-D convolution is a 2-D one of images with a single row: internally there is only conv2d.
#pragma once

#include <array>
#include <utility>

#include "registration/conv2d/parameters.h"

namespace haloconv {

struct ForwardOp {
  const char *name, *fused, *explain, *takes_residual;  // its operators
  const char* short_name;                               // in ATen's words
  int64_t pixel_dims;  // 2: tensors are (n, c, h, w) or (c, h, w); 1: (n, c, w) or (c, w)
  bool transposed;
  int64_t index;  // in kForwardOps
};

inline constexpr ForwardOp kConv2d = {"haloconv::conv2d",
                                      "haloconv::conv2d_fused",
                                      "haloconv::explain",
                                      "haloconv::conv2d_takes_residual",
                                      "conv2d",
                                      2,
                                      false,
                                      0};
inline constexpr ForwardOp kConvTranspose2d = {"haloconv::conv_transpose2d",
                                               "haloconv::conv_transpose2d_fused",
                                               "haloconv::conv_transpose2d_explain",
                                               "haloconv::conv_transpose2d_takes_residual",
                                               "conv_transpose2d",
                                               2,
                                               true,
                                               1};
inline constexpr ForwardOp kConv1d = {"haloconv::conv1d",
                                      "haloconv::conv1d_fused",
                                      "haloconv::conv1d_explain",
                                      "haloconv::conv1d_takes_residual",
                                      "conv1d",
                                      1,
                                      false,
                                      2};
inline constexpr ForwardOp kConvTranspose1d = {"haloconv::conv_transpose1d",
                                               "haloconv::conv_transpose1d_fused",
                                               "haloconv::conv_transpose1d_explain",
                                               "haloconv::conv_transpose1d_takes_residual",
                                               "conv_transpose1d",
                                               1,
                                               true,
                                               3};

inline constexpr std::array kForwardOps = {&kConv2d, &kConvTranspose2d, &kConv1d,
                                           &kConvTranspose1d};

// Calls body.template operator()<kOp>() for each.
template <class Body>
void for_each_forward_op(Body&& body) {
  body.template operator()<kConv2d>();
  body.template operator()<kConvTranspose2d>();
  body.template operator()<kConv1d>();
  body.template operator()<kConvTranspose1d>();
}

// The same for `op` alone.
template <class Body>
decltype(auto) for_forward_op(const ForwardOp& op, Body&& body) {
  switch (op.index) {
    case kConvTranspose2d.index:
      return body.template operator()<kConvTranspose2d>();
    case kConv1d.index:
      return body.template operator()<kConv1d>();
    case kConvTranspose1d.index:
      return body.template operator()<kConvTranspose1d>();
    default:
      return body.template operator()<kConv2d>();
  }
}

namespace internal {

// kFunction of a ForwardOp, then Before and Rest, one of which is ForwardParameters.
template <const ForwardOp& kOp, auto* kFunction, class Result, class Before, class... Rest>
struct Bound;

template <const ForwardOp& kOp, auto* kFunction, class Result, class... Before, class Next,
          class... Rest>
struct Bound<kOp, kFunction, Result, Types<Before...>, Next, Rest...>
    : Bound<kOp, kFunction, Result, Types<Before..., Next>, Rest...> {};

template <const ForwardOp& kOp, auto* kFunction, class Result, class... Before, class... After>
struct Bound<kOp, kFunction, Result, Types<Before...>, const ForwardParameters&, After...> {
  static Result call(Before... before, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                     c10::SymIntArrayRef dilation, c10::SymInt groups, After... after) {
    return kFunction(kOp, std::forward<Before>(before)...,
                     ForwardParameters{{stride, padding, dilation, std::move(groups)}, {}},
                     std::forward<After>(after)...);
  }

  // aten's order.
  static Result call_transposed(Before... before, c10::SymIntArrayRef stride,
                                c10::SymIntArrayRef padding, c10::SymIntArrayRef output_padding,
                                c10::SymInt groups, c10::SymIntArrayRef dilation, After... after) {
    return kFunction(
        kOp, std::forward<Before>(before)...,
        ForwardParameters{{stride, padding, dilation, std::move(groups)}, output_padding},
        std::forward<After>(after)...);
  }
};

template <const ForwardOp& kOp, auto* kFunction, class Result, class... Arguments>
constexpr auto* bind(Result (*)(const ForwardOp&, Arguments...)) {
  using All = Bound<kOp, kFunction, Result, Types<>, Arguments...>;
  if constexpr (kOp.transposed) {
    return &All::call_transposed;
  } else {
    return &All::call;
  }
}

}  // namespace internal

// kFunction(kOp, ...) with kOp's parameters, as its schema lists them, in the place of
// ForwardParameters.
template <const ForwardOp& kOp, auto* kFunction>
constexpr auto* bound = internal::bind<kOp, kFunction>(kFunction);

}  // namespace haloconv
