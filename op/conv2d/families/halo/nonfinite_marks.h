// Marks of sums that are NaN, which the kernels for folds set and the repair reads.
//
// A folded row multiplies its own taps by its weights and further taps by zeros; zero times an
// infinity or NaN is NaN, which the definition does not have. A math warp that finds NaN among its
// sums of a tile only marks them, whether they are NaN by their own taps or not. Another kernel
// then computes them once more, from their own taps alone: repair.cu.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::halo {

inline constexpr uint32_t kMarkWords = 4096;

// One bit for each math warp of a tile. Tiles that are 2^14 apart have the same bits, and so have
// the launches of a plan: then sums that are not NaN are looked at too.
struct NonfiniteMark {
  uint32_t word, bit;
};

// Of a math warp's sums of a tile, counted over all tiles.
HALOCONV_HOST_DEVICE inline NonfiniteMark mark_of(uint64_t sums) {
  return {static_cast<uint32_t>(sums / 32 % kMarkWords), uint32_t{1} << sums % 32};
}

}  // namespace haloconv::halo
