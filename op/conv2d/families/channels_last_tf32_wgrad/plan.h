// How weight gradients of float32 in TF32 with channels innermost run on Hopper. Pure host
// functions.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/channels_last_tf32_wgrad/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

struct Plan {
  Tile tile;
  Arguments args{};   // all but pointers
  bool flat = false;  // all pixels are one row
  int32_t box_h = 1;  // of the input; its other sides are among the arguments
  int64_t shared_bytes = 0;
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, bool tf32, const Chip& chip);

// Plans of a problem that declines() passes, the one expected to be fastest first: the best of each
// tile, or of each tile and order of pixels if `every`. None where no tile's boxes fit.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every = false);

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
