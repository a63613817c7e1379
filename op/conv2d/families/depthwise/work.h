// What the depthwise kernels have to do for a problem. Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

// The dimension along which a tensor's elements are neighbours in memory.
enum class Innermost { kRows, kChannels };

struct DepthwiseWork {
  int64_t tiles;         // of fprop and dgrad: blocks; of wgrad: what splits share
  int64_t split_blocks;  // wgrad's blocks of each split
  int32_t resident;      // wgrad's blocks on a multiprocessor
  double cycles;         // expected of all threads together
  double launch_ms;
};

// Nothing where the kernel does not take the problem.
std::optional<DepthwiseWork> depthwise_work(const Conv2dProblem& problem, Direction direction,
                                            Innermost innermost, const Chip& chip);

}  // namespace haloconv::depthwise
