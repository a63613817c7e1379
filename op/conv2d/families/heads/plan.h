// How the last layers of networks run, with channels innermost: filters of one tap to at most 4
// output channels. They have few products, so plain multiply-adds take less time than reading the
// wide tensor, the input, or in the input gradient writing it. Pure host functions.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv::heads {

inline constexpr int32_t kMostOutputs = 4;     // output channels
inline constexpr int32_t kMostInputs = 1024;   // input channels
inline constexpr int32_t kUnitBytes = 16;      // of neighbouring input channels, a unit
inline constexpr int32_t kBlockThreads = 256;  // threads of a block
inline constexpr int32_t kMostSharing = 16;    // threads of a pixel in fprop, a power of two
inline constexpr int32_t kFpropBlocks = 3;     // that a multiprocessor has registers to run at once
inline constexpr int32_t kThreadPixels = 4;    // pixels of a thread at a time
// The same in weight gradients, whose sums leave registers for so many blocks of a multiprocessor.
// `unet_out` on an H200, us: 38.0 so, 39.4, 39.3 and 41.3 with four pixels and 2, 3 or 4 blocks.
inline constexpr int32_t kWgradPixels = 8;
inline constexpr int32_t kWgradBlocks = 2;

struct Plan {
  Direction direction = Direction::kFprop;
  int64_t pixels = 0;                       // of all images
  int64_t input_step = 0, output_step = 0;  // elements from a pixel to the next
  int64_t filter_k = 0, filter_c = 0;       // elements between the filter's neighbours
  int32_t inputs = 0, outputs = 0;          // channels
  int32_t units = 0;                        // of a pixel's input channels
  int32_t sharing = 0;                      // fprop: threads of a pixel, a power of two
  int32_t blocks = 0;                       // of the launch
  int64_t workspace_bytes = 0;              // wgrad: partial sums of both gradients
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// The output channels that a kernel computes: the next of 1, 2 and 4.
constexpr int32_t computed_outputs(int32_t outputs) { return outputs <= 2 ? outputs : 4; }

// The blocks of input gradients that a multiprocessor has registers to run at once.
constexpr int32_t dgrad_blocks(int32_t computed_outputs) { return computed_outputs <= 2 ? 4 : 3; }

// How many such blocks run one after the other, so that a multiprocessor that writes faster runs
// more of them. On an H200, us, with 1, 2, 3, 6 and 10: `unet_out` in
// float32 75.7, 80.3, 76.9, 73.8 and 72.0, in bfloat16 41.2, 40.7, 40.2, 38.5 and 39.4; with 320
// channels to 3 in float32 64.9, 69.0, 66.7, 64.6 and 63.2, in bfloat16, where weights take long to
// load, 39.1, 36.8, 37.2, 39.4 and 44.6.
constexpr int32_t dgrad_waves(int64_t value_bytes, int32_t computed_outputs) {
  if (value_bytes == 4) return 10;
  return computed_outputs <= 2 ? 6 : 2;
}

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction);

// The plan of a problem that declines() passes.
Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::heads
