// The tensor maps that the kernels are launched with: of the source and of the filter.
#pragma once

#include <cuda.h>

#include "conv2d/families/channels_last/arguments.h"

namespace haloconv::sm90::channels_last {

struct TensorMaps {
  CUtensorMap source[kMaxPhases];  // a phase's columns
  CUtensorMap filter;
};

struct WindowMaps {
  CUtensorMap source, filter;
};

}  // namespace haloconv::sm90::channels_last
