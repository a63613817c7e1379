// The tiles that the kernels have.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/halo/plan.h"

namespace haloconv::halo {

// Every arrangement of a warpgroup's instructions, those of one instance of the kernel together.
const std::vector<Tile>& tiles_of(bool precise);

// What planners, which look at many tiles, need of each whatever the problem.
struct TileFacts {
  int32_t kind;        // of one fold, less than kKindsOfFold
  int32_t log_images;  // of a block's images
  bool may_split;
};
inline constexpr int32_t kKindsOfFold = 8 * 2 * 4;  // instances, patches or rows, shares

// Of tiles_of().
const std::vector<TileFacts>& facts_of(bool precise);

}  // namespace haloconv::halo
