// What the depthwise kernels have to do for a problem. Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

// For tensors whose rows are innermost: by windows of planes, or along lines. For those whose
// channels are innermost: down rows, by patches, by band matrices, or by eights of images.
enum class Kernel { kRows, kLines, kChannels, kPatches, kBands, kImages };

struct DepthwiseWork {
  int64_t tiles;         // of fprop and dgrad: blocks; of wgrad: what splits share
  int64_t split_blocks;  // wgrad's blocks of each split
  int32_t resident;      // wgrad's blocks on a multiprocessor
  double cycles;         // expected of all threads together
  double launch_ms;
  // What a block of wgrad takes beside its tiles, in tiles.
  int32_t begin_tiles = 0;
  double bytes_per_second = 3e12;  // on an H200
};

// Nothing where the kernel does not take the problem.
std::optional<DepthwiseWork> depthwise_work(const Conv2dProblem& problem, Direction direction,
                                            Kernel kernel, const Chip& chip);

}  // namespace haloconv::depthwise
