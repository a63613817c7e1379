// How weight gradients of 16-bit types with channels innermost run on Hopper. Pure host functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "conv2d/families/channels_last_wgrad/tile.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last_wgrad {

// What a tile's columns go through from one column warpgroup, instruction or chunk to the next.
enum class Along { kChannels, kTaps, kRows };

struct Columns {
  Along warpgroup, instruction, chunk;
  bool operator==(const Columns&) const = default;
};

// Pixels that a stage brings: 16 * k_steps() of them.
struct Patch {
  int32_t columns = 8, rows = 1, images = 1;
  int32_t k_steps() const { return columns * rows * images / 16; }
};

struct Plan {
  Tile tile;
  Columns columns;
  bool flat = false;  // all pixels are one row
  Patch patch;
  int32_t cluster_blocks = 1, outer_splits = 1;
  int32_t stages = 2;
  bool with_bias = false;
  double estimated_ms = 0;
  int64_t workspace_bytes = 0;
};

inline constexpr size_t kMostPlans = 4;

// Why the kernels do not take the problem, or "".
std::string declines(const Conv2dProblem& problem);

// Whether all pixels of the input and of grad_output may be taken for one row.
bool is_flat(const Conv2dProblem& problem);

// Ways to run a problem that is not declined, the fastest by the model first; at least one.
std::vector<Plan> plans(const Conv2dProblem& problem, int multiprocessors, bool with_bias,
                        size_t most = kMostPlans);

std::ostream& operator<<(std::ostream& os, const Plan& plan);

}  // namespace haloconv::sm90::channels_last_wgrad
