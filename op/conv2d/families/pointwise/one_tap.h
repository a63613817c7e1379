// What the kernels for filters of one tap take, and what they may copy at once.
#pragma once

#include <cstdint>
#include <string>

#include "conv2d/problem.h"

namespace haloconv::pointwise {

// Why a flattened() problem is no matrix product of values with contiguous pixels, by a filter of
// one tap that moves neither by strides nor by padding; or "". The tensor cores take float32 of
// operands whose depth is innermost alone: wgrad's.
inline std::string one_tap_declines(const Conv2dProblem& p, Direction direction) {
  const bool is_tf32 = p.type == DataType::kFloat32 && direction == Direction::kWgrad;
  if (p.type != DataType::kFloat16 && p.type != DataType::kBFloat16 && !is_tf32) {
    return "the element type is not float16 or bfloat16";
  }
  if (p.r != 1 || p.s != 1) return "the filter has more than one tap";
  if (p.stride_h != 1 || p.stride_w != 1) return "a stride is not 1";
  if (p.pad_top != 0 || p.pad_bottom != 0 || p.pad_left != 0 || p.pad_right != 0) {
    return "there is padding";
  }
  const bool pixels_are_neighbours = (p.input.w == 1 && p.output.w == 1) || p.w == 1;
  return p.h == 1 && pixels_are_neighbours ? "" : "rows do not follow each other in memory";
}

// The largest of 8, 4, 2 and 1 that divides all of them.
template <class... Counts>
int32_t unit_of(Counts... counts) {
  int32_t unit = 8;
  while (((counts % unit != 0) || ...)) unit /= 2;
  return unit;
}

// The unit, or what of it the address of 16-bit values allows.
inline int32_t aligned_unit(int32_t unit, const void* at) {
  while (reinterpret_cast<uintptr_t>(at) % (2 * static_cast<uintptr_t>(unit)) != 0) unit /= 2;
  return unit;
}

}  // namespace haloconv::pointwise
