// From a problem's type to the C++ type of its elements, of those that are multiplied on tensor
// cores; with_element_type.h has all.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "conv2d/problem.h"

namespace haloconv {

// Calls body(T{}) with the type of the elements.
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
      throw std::logic_error("haloconv: no kernel on tensor cores has this element type");
  }
}

}  // namespace haloconv
