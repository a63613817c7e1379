// The plans of the pointwise family for fprop and dgrad. Pure host functions: they ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/pointwise/spread.h"
#include "conv2d/families/pointwise/tile.h"
#include "conv2d/families/pointwise/unfold.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

struct Arguments;

struct Plan {
  Direction direction = Direction::kFprop;      // or dgrad
  Tile tile;                                    // destination channels and pixels
  std::optional<Spread> spread = std::nullopt;  // of dgrad
  std::optional<Unfold> unfold = std::nullopt;
  int64_t workspace_bytes = 0;  // the copy
  double estimated_ms = 0;
  std::shared_ptr<const Arguments> arguments = nullptr;  // all but their pointers
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// A plan for each tile that is of use; none unless the problem, flattened() and passed by
// declines(), is of one tap and a 16-bit type, with pixels and the filter's input channels
// contiguous. A problem that one_tap_of() made comes with its spread.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             const std::optional<Spread>& spread = std::nullopt);

}  // namespace haloconv::pointwise
