// From a problem's type to the C++ type of its elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "conv2d/problem.h"

namespace haloconv {

// Calls body(T{}) with the type of the elements, one that the Hopper kernels have.
template <class Body>
void with_element(DataType type, Body body) {
  switch (type) {
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat16:
      return body(__half{});
    case DataType::kBFloat16:
      return body(__nv_bfloat16{});
    default:
      throw std::logic_error("haloconv: no sm90 kernel has this element type");
  }
}

}  // namespace haloconv
