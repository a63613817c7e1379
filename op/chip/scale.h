// How a chip compares with the H200, on which the cost models' constants were fitted: the factors
// by which to multiply a rate. For an H200 each is exactly 1.
#pragma once

#include "chip/known_chips.h"

namespace haloconv {

inline double clock_scale(const Chip& chip) { return chip.clock_hz / h200().clock_hz; }

inline double memory_scale(const Chip& chip) { return chip.memory_rate / h200().memory_rate; }

// The scale of the tensor cores' rate in TF32.
inline double tf32_scale(const Chip& chip) {
  const auto rate = [](const Chip& c) { return c.flop_rate(c.multiply_adds.tf32_matrix); };
  return rate(chip) / rate(h200());
}

// The scale of the bytes that a multiprocessor gets from the L2 cache in a cycle.
inline double l2_scale(const Chip& chip) {
  const auto bytes_per_cycle = [](const Chip& c) { return c.l2_rate / c.cycle_rate(); };
  return bytes_per_cycle(chip) / bytes_per_cycle(h200());
}

}  // namespace haloconv
