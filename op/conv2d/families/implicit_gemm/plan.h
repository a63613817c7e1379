// How fprop and dgrad are computed by the matrix instruction that every chip since compute
// capability 8.0 has. Pure host functions: no GPU is asked.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/problem.h"

namespace haloconv::implicit_gemm {

struct Plan {
  Direction direction = Direction::kFprop;  // or dgrad
  Tile tile;
  Access access = Access::kUnits;
  bool packs = false;  // the filter to the workspace, before each launch
  std::vector<Arguments> launches;
  bool interleaves = false;  // rows: launches have the same filter (interleaved_rows.h)
  // For `launches`, where they take the call: strips.h, or descents.h of its tile, or, of a team,
  // team_descents.h.
  std::shared_ptr<const Arguments> strips;
  bool is_of_team = false;
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;

  int32_t stages() const { return launches.front().stages; }
  const Windows& windows() const { return launches.front().windows; }
  bool has_descents() const { return strips && tile == kDescentPatch; }
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32);

// All plans of a problem that declines() passes, the one expected to be fastest first. By units
// where these can be had, unless `is_aligned` is false: a tensor does not begin with a whole unit.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool is_aligned);

}  // namespace haloconv::implicit_gemm
