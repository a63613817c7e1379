// What is brought to the L2 cache while the kernel before still runs: the source that the ring's
// first stages will hold. Memory would have nothing to do until the last block of that kernel has
// ended.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// Where it gains, but more of it makes the copies themselves wait.
inline constexpr int32_t kFewPrefetched = 2;

// Of a ring's stages, so many, where memory bounds a launch, hence of a single tap, and each byte
// of the source is wanted by one block alone: all if most of the bytes are the source's, few if
// half of them are (0.95 to 0.99 of the time, all of them 1.04), none elsewhere. In 16 bits, none
// of blocks that have one tile (all of them took 1.02 to 1.11 of the time), and of rows of the
// source that begin within a line of memory one: layers of 96, 144 and 240 channels took 0.86 to
// 0.98 of the time with all (an H100, an H200).
inline int32_t prefetched_stages(const Conv2dProblem& problem, Direction direction,
                                 int64_t channel_tiles, bool has_several_tiles, int32_t stages) {
  constexpr int64_t kLineBytes = 128;
  if (problem.r * problem.s != 1 || channel_tiles != 1) return 0;
  const bool fprop = direction == Direction::kFprop, has_16_bits = size_of(problem.type) == 2;
  const int64_t pixel = fprop ? problem.c : problem.k;
  const int64_t source = fprop ? pixel : pixel * problem.p() * problem.q();
  const int64_t result = fprop ? problem.k : problem.c * problem.h * problem.w;
  if (has_16_bits && source == result) return std::min(stages, kFewPrefetched);
  if (source <= result) return 0;
  if (!has_16_bits) return stages;
  if (!has_several_tiles) return 0;
  return pixel * size_of(problem.type) % kLineBytes == 0 ? stages : 1;
}

}  // namespace haloconv::sm90::channels_last
