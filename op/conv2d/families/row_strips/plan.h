// The plans of the row_strips family: forward passes and input gradients of wide filters that
// compute at most 32 channels. Pure host functions, which ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv::row_strips {

struct Arguments;

struct Plan {
  Direction direction = Direction::kDgrad;  // or fprop
  int blocks = 1;                           // 2: a cluster's blocks share the source channels
  int stages = 3;                           // chunks of source channels that shared memory holds
  int sweeps = 1;               // parts of a band's rows, of which a block sweeps one at a time
  int64_t workspace_bytes = 0;  // the packed filter
  double estimated_ms = 0;
  std::shared_ptr<const Arguments> arguments = nullptr;  // all but the pointers
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// The plans of a problem that hopper_rows_decline() passes, the best first; none if no kernel takes
// it.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::row_strips
