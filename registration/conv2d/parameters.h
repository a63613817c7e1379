// What every convolution takes beside its tensors, as one value. Schemas list the four one by one.
// Kernels are written with this struct, and registered with its members as arguments.
#pragma once

#include <c10/core/SymIntArrayRef.h>

#include <utility>

namespace haloconv {

// As the caller gave them, unchecked. Refers to the caller's lists.
struct Conv2dParameters {
  c10::SymIntArrayRef stride, padding, dilation;
  c10::SymInt groups;

  Conv2dParameters with_groups(c10::SymInt other) const {
    return {stride, padding, dilation, std::move(other)};
  }
};

// The same for any forward operator.
struct ForwardParameters : Conv2dParameters {
  c10::SymIntArrayRef output_padding;  // empty unless the operator is transposed
};

namespace internal {

template <class... T>
struct Types {};

// kFunction of arguments Before and Rest, one of which is Conv2dParameters: Before has been read.
template <auto* kFunction, class Result, class Before, class... Rest>
struct Unpacked;

template <auto* kFunction, class Result, class... Before, class Next, class... Rest>
struct Unpacked<kFunction, Result, Types<Before...>, Next, Rest...>
    : Unpacked<kFunction, Result, Types<Before..., Next>, Rest...> {};

template <auto* kFunction, class Result, class... Before, class... After>
struct Unpacked<kFunction, Result, Types<Before...>, const Conv2dParameters&, After...> {
  static Result call(Before... before, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                     c10::SymIntArrayRef dilation, c10::SymInt groups, After... after) {
    return kFunction(std::forward<Before>(before)...,
                     Conv2dParameters{stride, padding, dilation, std::move(groups)},
                     std::forward<After>(after)...);
  }
};

template <auto* kFunction, class Result, class... Arguments>
constexpr auto* unpack(Result (*)(Arguments...)) {
  return &Unpacked<kFunction, Result, Types<>, Arguments...>::call;
}

}  // namespace internal

// kFunction with stride, padding, dilation and groups in the place of its Conv2dParameters.
template <auto* kFunction>
constexpr auto* unpacked = internal::unpack<kFunction>(kFunction);

}  // namespace haloconv
