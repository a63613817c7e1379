// The plans of the unpacked family: forward passes in TF32 of tensors whose rows are innermost.
// Pure host functions, which ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/unpacked/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::unpacked {

// The window of a tile: a box of the input.
struct Box {
  int32_t columns = 0, rows = 0, channels = 0, images = 0;

  int64_t bytes() const { return int64_t{columns} * rows * channels * images * 4; }
};

struct Plan {
  Tile tile;
  Box box;
  Arguments args = {};          // all but the pointers
  int64_t workspace_bytes = 0;  // the sums of splits
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem that hopper_rows_decline() passes, or "".
std::string declines(const Conv2dProblem& problem);

// All plans of a problem that declines() passes, the one expected to be fastest first; none where
// no window fits in shared memory.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip);

}  // namespace haloconv::unpacked
