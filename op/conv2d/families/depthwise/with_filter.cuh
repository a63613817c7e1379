// The filters and strides that the depthwise kernels are compiled for.
#pragma once

#include <stdexcept>

#include "conv2d/families/depthwise/axes.h"

namespace haloconv::depthwise {

// Calls body.template operator()<kTaps, kStep>() for those of a row.
template <class Body>
void with_depthwise_filter(const DepthwiseAxes& axes, Body body) {
  switch (axes.w.taps * 10 + axes.w.step) {
    case 31:
      return body.template operator()<3, 1>();
    case 32:
      return body.template operator()<3, 2>();
    case 41:
      return body.template operator()<4, 1>();
    case 42:
      return body.template operator()<4, 2>();
    case 51:
      return body.template operator()<5, 1>();
    case 52:
      return body.template operator()<5, 2>();
    case 71:
      return body.template operator()<7, 1>();
    case 72:
      return body.template operator()<7, 2>();
  }
  throw std::logic_error("haloconv: no depthwise kernel has this filter");
}

}  // namespace haloconv::depthwise
