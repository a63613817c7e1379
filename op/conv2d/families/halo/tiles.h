// The tiles that the kernels have.
#pragma once

#include <vector>

#include "conv2d/families/halo/plan.h"

namespace haloconv::halo {

// Every arrangement of a warpgroup's instructions, those of one instance of the kernel together.
const std::vector<Tile>& tiles_of(bool precise);

}  // namespace haloconv::halo
