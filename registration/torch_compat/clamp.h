// Where torch's clamp passes its gradient on.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/headeronly/version.h>

namespace haloconv {

inline at::Tensor passes_clamp(const at::Tensor& x, double least, double most) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 14
  return x.ge(least).logical_and(x.le(most));
#else  // since 2.14 not at the bounds themselves
  return x.gt(least).logical_and(x.lt(most));
#endif
}

}  // namespace haloconv
