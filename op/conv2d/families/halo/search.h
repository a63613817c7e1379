// Finds the plans of a problem that the model expects to be fast. Only a few numbers of each are
// computed, and plans that cannot be among the wanted ones are skipped early.
#pragma once

#include <cstdint>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/halo/best_of_kinds.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/plan.h"

namespace haloconv::halo {

// A plan found: of which fold and tile, in the order in which the definition lists them.
struct Found {
  double estimated_ms = 0;
  int32_t order = 0;
  int32_t kind = 0;
  int32_t tile = 0;  // of tiles_of()
  int32_t stages = 0, splits = 1;
  FoldChoice fold = {};
  int64_t workspace_bytes = 0;
};

// The plans of a flattened() problem that `best` may want, in any order.
std::vector<Found> search_tiles(const Conv2dProblem& problem, Direction direction, bool precise,
                                const Chip& chip, BestOfKinds& best);

}  // namespace haloconv::halo
