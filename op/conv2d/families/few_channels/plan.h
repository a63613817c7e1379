// The plans of the few_channels family: few destination channels from many source channels. Pure
// host functions, which ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv::few_channels {

// An instantiation of the kernel, for filters of at most so many rows, and at most so many products
// in each (taps of a row times destination channels).
struct Instance {
  int row_taps, columns;
  bool shuffles = false;  // shuffled_epilogue.cuh writes its results
  constexpr int width() const { return row_taps * columns; }  // of the matrix instruction
  bool operator==(const Instance&) const = default;
};

inline constexpr Instance kInstances[] = {{3, 16}, {3, 48, true}, {3, 48}, {5, 24}};

struct Arguments;

struct Plan {
  Direction direction = Direction::kDgrad;  // or fprop
  Instance instance = {3, 48};
  int stages = 2;               // chunks of source channels that shared memory holds
  int sweeps = 1;               // parts of a band's rows, of which a block sweeps one at a time
  int64_t workspace_bytes = 0;  // the packed filter and the fringe
  double estimated_ms = 0;
  std::shared_ptr<const Arguments> arguments = nullptr;  // all but the pointers
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// The plan of a flattened() problem that declines() passes, if a kernel takes it.
std::optional<Plan> make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::few_channels
