// What the public functions make of their arguments.
#pragma once

#include "registration/conv2d/checks.h"

namespace haloconv {

inline c10::SymIntArrayRef sym(at::IntArrayRef values) { return c10::fromIntArrayRefSlow(values); }

inline Conv2dParameters parameters_of(at::IntArrayRef stride, at::IntArrayRef padding,
                                      at::IntArrayRef dilation, int64_t groups) {
  return {sym(stride), sym(padding), sym(dilation), groups};
}

// The dispatcher takes the device from any tensor, and if there is none it cannot say what is
// wrong.
inline const at::Tensor& defined(const char* name, const at::Tensor& tensor) {
  check_defined("haloconv", name, tensor);
  return tensor;
}

// For conv2d.padding and conv1d.padding.
using NamedPaddingSignature = at::Tensor(const at::Tensor&, const at::Tensor&,
                                         const std::optional<at::Tensor>&, c10::SymIntArrayRef,
                                         c10::string_view, c10::SymIntArrayRef, c10::SymInt);

}  // namespace haloconv
