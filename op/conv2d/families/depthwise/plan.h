// How the depthwise kernels run a problem. Pure host functions: no GPU is asked.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/depthwise/axes.h"
#include "conv2d/families/depthwise/bands.h"
#include "conv2d/families/depthwise/images.h"
#include "conv2d/families/depthwise/work.h"
#include "conv2d/once.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

struct Lowered;

struct Plan {
  Direction direction = Direction::kFprop;
  Kernel kernel = Kernel::kRows;
  int64_t splits = 1;                           // wgrad only: blocks that share a channel's tiles
  bool with_bias = false;                       // wgrad only: the bias gradient is summed too
  std::optional<Bands> bands = std::nullopt;    // kBands only
  std::optional<Images> images = std::nullopt;  // kImages only
  int64_t workspace_bytes = 0;                  // wgrad's partial sums
  double estimated_ms = 0;
  // What the launch needs, worked out by the first one; only in plans that the family answers with.
  std::shared_ptr<const Once<Lowered>> lowered = nullptr;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Nothing where the kernels do not take the problem. with_bias counts for wgrad alone. Of all but
// kBands.
std::optional<Plan> make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                              bool with_bias, Kernel kernel);

// Of kBands, the one expected to be fastest first; with `all` those that are slow too.
std::vector<Plan> make_bands_plans(const Conv2dProblem& problem, Direction direction,
                                   const Chip& chip, bool all);

}  // namespace haloconv::depthwise
