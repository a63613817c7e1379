// Destination pixels that no tap meets, because a stride passes over them: those of phases without
// taps. Their sums are zeros, to which bias, scale, shift and residual still apply. Here are the
// arguments of the kernel that writes them, made on the host and tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::halo {

struct ZeroArguments {
  void* destination;
  Strides strides;
  int64_t planes;            // images * channels
  int32_t channels, pixels;  // of all groups; of a plane
  FastDiv columns;
  int32_t phases_h, phases_w;   // of an axis: its pixels modulo so many have the same taps
  uint32_t tapped_h, tapped_w;  // bit i: those with the remainder i have taps
  const void* bias;             // one value per channel, or null
  Fusion fusion;

  HALOCONV_HOST_DEVICE bool is_zero(int32_t h, int32_t w) const {
    return ((tapped_h >> h % phases_h) & (tapped_w >> w % phases_w) & 1) == 0;
  }
};

// All but the pointers and the fusion; none where every pixel meets a tap.
std::optional<ZeroArguments> make_zero_arguments(const Conv2dProblem& problem, Direction direction);

}  // namespace haloconv::halo
