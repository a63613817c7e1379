// The tensor maps that the kernels are launched with: of the source and of the filter; where a
// residual passes through the ring, of the residual and of a warp's part of the result; where
// alternating tiles' results are copied, of 64 pixels of the result.
#pragma once

#include <cuda.h>

#include "conv2d/families/channels_last/arguments.h"

namespace haloconv::sm90::channels_last {

struct TensorMaps {
  CUtensorMap source[kMaxPhases];  // a phase's columns
  CUtensorMap filter;
  CUtensorMap residual, result;
};

struct WindowMaps {
  CUtensorMap source, filter;
  CUtensorMap residual, result;
};

}  // namespace haloconv::sm90::channels_last
