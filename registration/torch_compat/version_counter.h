// The counter by which autograd notices that a saved tensor has changed.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace haloconv {

// To be called by an operator that has written to the tensor.
inline void count_change(const at::Tensor& tensor) { torch::autograd::impl::bump_version(tensor); }

}  // namespace haloconv
