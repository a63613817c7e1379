// The plans of the all_phases family. Pure host functions: they ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv::all_phases {

struct Arguments;

// What a block computes at a time: each of its two warpgroups has `blocks` times 64 periods, and
// `columns` columns of the product.
struct Tile {
  int blocks, columns;
  bool packs_source = false;      // a kernel before has the source's channels lie side by side
  bool has_groups_apart = false;  // each a product of its own
};

// Those that there are kernels for.
inline constexpr Tile kTiles[] = {{1, 16}, {1, 64}, {2, 64}, {2, 128}};

struct Plan {
  Tile tile;
  int64_t workspace_bytes = 0;  // the packed filter
  double estimated_ms = 0;
  std::shared_ptr<const Arguments> arguments = nullptr;  // all but their pointers
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why there are no plans for a problem's dgrad, or "".
std::string declines(const Conv2dProblem& problem, const Chip& chip);

// The one expected to be fastest first.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip);

}  // namespace haloconv::all_phases
