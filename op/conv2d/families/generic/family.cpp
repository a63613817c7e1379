// Plain multiply-adds on any chip: every type, layout and parameter.
#include "conv2d/family.h"

#include <cmath>

#include "conv2d/families/generic/lowered.h"
#include "conv2d/families/generic/plan.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::generic {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined = beyond_limits(request.problem, request.direction)};
  if (!answer.declined.empty()) return answer;
  const auto add = [&](Plan plan) {
    if (std::isinf(plan.estimated_ms)) return;
    plan.lowered = std::make_shared<const Once<Lowered>>();
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->takes_bias = takes_fusion(plan);
    made->takes_fusion = takes_fusion(plan);
    made->kind = static_cast<int64_t>(plan.kernel);
    answer.plans.push_back(std::move(made));
  };
  if (request.every_plan) {
    for (const Kernel kernel : kAllKernels) {
      add(make_plan(request.problem, request.direction, request.chip, request.with_bias, kernel));
    }
  } else {
    add(make_plan(request.problem, request.direction, request.chip, request.with_bias));
  }
  if (answer.plans.empty()) answer.declined = "every kernel needs a grid of more than 2^31 blocks";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "generic", .group = "generic", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::generic
