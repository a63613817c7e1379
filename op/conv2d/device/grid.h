// The limit of a grid.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace haloconv {

// Blocks of a launch. The planners give no plan of more than a grid has.
inline unsigned grid_blocks(int64_t blocks) {
  if (blocks > INT32_MAX) throw std::logic_error("haloconv: a grid of more than 2^31 blocks");
  return static_cast<unsigned>(blocks);
}

}  // namespace haloconv
