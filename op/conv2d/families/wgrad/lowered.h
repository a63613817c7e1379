// All that a launch of a plan needs but pointers.
#pragma once

#include <optional>

#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

struct Lowered {
  Arguments arguments;
  // Of a plan with boxes: where the copy engine cannot take the gradient's address.
  std::optional<Arguments> without_boxes;
};

// Of a flattened() problem. Throws std::logic_error where the kernels have no tiles of the plan.
Lowered lower(const Conv2dProblem& problem, const Plan& plan);

}  // namespace haloconv::wgrad
