// Where the sums of a tensor with channels innermost go, and what is done to them on the way.
#pragma once

#include <cmath>
#include <cstdint>

#include "conv2d/epilogue/fusion.h"

namespace haloconv::sm90 {

// What is fused where it is quick: one factor and one offset a channel, and an activation that is
// two bounds or SiLU. Worked out on the host, so that a kernel reads the bounds as constants.
struct QuickFusion {
  bool is_quick = false, is_silu = false;
  float low = -INFINITY, high = INFINITY;  // the activation's bounds

  QuickFusion() = default;
  QuickFusion(const void* bias, const Fusion& fusion) {
    const ActivationKind kind = fusion.activation.kind;
    const bool clamps = kind == ActivationKind::kClamp || kind == ActivationKind::kHardtanh;
    is_silu = kind == ActivationKind::kSilu;
    // A bias before a scale cannot become a part of the offset: infinities would be others.
    is_quick =
        (kind == ActivationKind::kNone || kind == ActivationKind::kRelu || clamps || is_silu) &&
        (bias == nullptr || (fusion.scale == nullptr && fusion.shift == nullptr));
    if (kind == ActivationKind::kRelu) low = 0;
    if (!clamps) return;
    low = static_cast<float>(fusion.activation.a);
    high = static_cast<float>(fusion.activation.b);
  }
};

struct Results {
  void* to;
  const void* bias;
  Fusion fusion;
  int32_t channels;  // of the destination
  QuickFusion quick;
};

}  // namespace haloconv::sm90
