// The plans of the phase_pairs family. Pure host functions, which ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/phase_pairs/pattern.h"
#include "conv2d/problem.h"

namespace haloconv::phase_pairs {

struct Arguments;

// What a block computes at a time. Each of its two warpgroups has `blocks` times 64 pairs of
// pixels, and `channels` channels of both pixels.
struct Tile {
  Pattern pattern;
  int blocks = 2;                          // 1 or 2
  int channels = 64;                       // 64 or 32
  int columns = 32, rows = 8, images = 1;  // of the pairs: powers of two
};

struct Plan {
  Tile tile;
  int64_t workspace_bytes = 0;  // the packed filter
  double estimated_ms = 0;
  std::shared_ptr<const Arguments> arguments = nullptr;  // all but the pointers
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why there are no plans for a problem's dgrad that hopper_rows_decline() passes, or "".
std::string declines(const Conv2dProblem& problem);

// All plans, the one expected to be fastest first.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip);

}  // namespace haloconv::phase_pairs
