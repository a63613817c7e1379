// What is brought to the L2 cache while the kernel before still runs: the source that the ring's
// first stages will hold. Memory would have nothing to do until the last block of that kernel has
// ended.
#pragma once

#include <cstdint>

#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// Whether that gains: where memory bounds a launch, hence of a single tap, most of the bytes are
// the source's, and each of these is wanted by one block alone. Elsewhere the copies themselves
// wait behind it.
inline bool prefetches(const Conv2dProblem& problem, Direction direction, int64_t channel_tiles) {
  const int64_t output = problem.k * problem.p() * problem.q();
  const bool is_mostly_source = direction == Direction::kFprop
                                    ? problem.c > problem.k
                                    : output > problem.c * problem.h * problem.w;
  return problem.r * problem.s == 1 && channel_tiles == 1 && is_mostly_source;
}

}  // namespace haloconv::sm90::channels_last
