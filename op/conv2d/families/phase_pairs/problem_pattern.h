// The pattern of a problem's columns.
#pragma once

#include <optional>
#include <vector>

#include "conv2d/families/phase_pairs/pattern.h"
#include "conv2d/geometry/geometry.h"

namespace haloconv::phase_pairs {

// The source columns that the two phases' pixels meet, from the pair's own number.
struct Lowest {
  int32_t shift, last;
};
Lowest lowest_of(const std::vector<AxisPhase>& columns);

// None if there is no kernel for it.
std::optional<Pattern> pattern_of(const std::vector<AxisPhase>& columns);

}  // namespace haloconv::phase_pairs
