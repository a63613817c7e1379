// Where the copy engine writes results: of tiles that are pieces of one row, and of those that have
// pieces of several rows.
#pragma once

#include <cstdint>

#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/plan.h"

namespace haloconv::halo {

// Whether the engine can write a tile's results.
bool may_copy(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
              const AxisPart& column);

// Of a block.
int64_t copied_staging_bytes(const Tile& tile, int64_t element_bytes);

}  // namespace haloconv::halo
