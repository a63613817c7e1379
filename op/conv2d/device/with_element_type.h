// From an element type of a problem to the C++ type of its elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "conv2d/problem.h"

namespace haloconv {

// Calls body(T{}) with the C++ type of the elements.
template <class Body>
void with_element_type(DataType type, Body body) {
  switch (type) {
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat64:
      return body(double{});
    case DataType::kFloat16:
      return body(__half{});
    case DataType::kBFloat16:
      return body(__nv_bfloat16{});
    case DataType::kOther:
      break;
  }
  throw std::logic_error("haloconv: no kernel has this element type");
}

}  // namespace haloconv
