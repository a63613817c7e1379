// Where the sums of a tensor with channels innermost go, and what is done to them on the way.
#pragma once

#include <cstdint>

#include "conv2d/device/quick_fusion.h"

namespace haloconv::sm90 {

struct Results {
  void* to;
  const void* bias;
  Fusion fusion;
  int32_t channels;  // of the destination
  QuickFusion quick;
};

}  // namespace haloconv::sm90
