#include "conv2d/families/depthwise/lowered.h"

#include <optional>
#include <stdexcept>

namespace haloconv::depthwise {

namespace {

template <class Shape>
Shape taken(std::optional<Shape> shape) {
  if (!shape) throw std::logic_error("haloconv: the depthwise kernel does not take this problem");
  return *shape;
}

}  // namespace

Lowered lower(const Conv2dProblem& problem, const Plan& plan) {
  const bool wgrad = plan.direction == Direction::kWgrad;
  Lowered lowered;
  if (plan.kernel == Kernel::kBands) {
    lowered.shape = taken(plan.bands);
  } else if (plan.kernel == Kernel::kImages) {
    lowered.shape = taken(plan.images);
  } else if (plan.kernel == Kernel::kPatches) {
    lowered.shape = taken(make_patches(problem, plan.direction));
  } else if (plan.kernel == Kernel::kChannels) {
    lowered.shape = taken(make_depthwise_nhwc(problem, plan.direction));
  } else if (plan.kernel == Kernel::kLines && wgrad) {
    lowered.shape = taken(make_lines_wgrad(problem));
  } else if (plan.kernel == Kernel::kLines) {
    lowered.shape = taken(make_lines(problem, plan.direction));
  } else if (wgrad) {
    lowered.shape = taken(make_depthwise_wgrad(problem));
  } else {
    lowered.shape = taken(make_depthwise(problem, plan.direction));
  }
  if (wgrad) {
    lowered.wgrad = make_wgrad(problem, plan.with_bias);
  } else {
    lowered.gather = make_gather(problem, plan.direction);
  }
  return lowered;
}

}  // namespace haloconv::depthwise
