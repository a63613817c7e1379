// All that the launches of a plan need except pointers.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/generic/plan.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::generic {

// One launch of fprop or dgrad: some phases, numbered in the order of their tiles.
struct GatherLaunch {
  int32_t phase_count = 0;
  Phase phases[kPhasesOfLaunch] = {};
  int64_t tiles = 0;  // of the launch's phases along pixels
};

struct Lowered {
  // For fprop and dgrad.
  Gather gather = {};
  PackedShape packed = {};
  std::vector<GatherLaunch> launches;
  // For wgrad.
  Wgrad wgrad = {};
};

Lowered lower(const Conv2dProblem& problem, const Plan& plan);

}  // namespace haloconv::generic
