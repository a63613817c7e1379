// A CUDA tensor without values, by the function that stands behind at::empty.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/EmptyTensor.h>

namespace haloconv {

// As at::empty gives it, without its two dispatches. Deterministic algorithms do not fill it: it is
// for what is written whole.
inline at::Tensor cuda_empty(c10::IntArrayRef size, const at::Tensor& like,
                             at::MemoryFormat format) {
  return at::detail::empty_cuda(size, like.scalar_type(), like.device(), format);
}

}  // namespace haloconv
