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
inline constexpr int32_t kUnit = 8;            // neighbouring input channels, 16 bytes
inline constexpr int32_t kBlockThreads = 256;  // threads of a block
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
  int32_t blocks = 0;                       // of the launch
  int64_t workspace_bytes = 0;              // wgrad: partial sums of both gradients
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// The output channels that a kernel computes: the next of 1, 2 and 4.
constexpr int32_t computed_outputs(int32_t outputs) { return outputs <= 2 ? outputs : 4; }

// The blocks that a multiprocessor has registers to run at once.
constexpr int32_t blocks_at_once(int32_t computed_outputs) { return computed_outputs <= 2 ? 4 : 3; }

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction);

// The plan of a problem that declines() passes.
Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::heads
