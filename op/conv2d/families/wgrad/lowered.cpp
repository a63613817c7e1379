#include "conv2d/families/wgrad/lowered.h"

#include <stdexcept>

namespace haloconv::wgrad {

Lowered lower(const Conv2dProblem& problem, const Plan& plan) {
  const auto arguments_of = [&](const Plan& of) {
    const std::optional<Arguments> made = make_arguments(problem, of);
    if (!made) {
      throw std::logic_error("haloconv: the wgrad kernels have no tiles of this plan");
    }
    return *made;
  };
  Lowered lowered{arguments_of(plan), std::nullopt};
  if (plan.boxes) lowered.without_boxes = arguments_of(without_boxes(problem, plan));
  return lowered;
}

}  // namespace haloconv::wgrad
