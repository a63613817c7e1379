// Groups with one channel to sum over, on any chip: rows or channels innermost.
#include "conv2d/family.h"

#include "conv2d/families/depthwise/lowered.h"
#include "conv2d/families/depthwise/plan.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::depthwise {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined = beyond_limits(request.problem, request.direction)};
  if (!answer.declined.empty()) return answer;
  const auto add = [&](Plan plan) {
    plan.lowered = std::make_shared<const Once<Lowered>>();
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->takes_bias = made->takes_fusion = request.direction != Direction::kWgrad;
    answer.plans.push_back(std::move(made));
  };
  for (const Kernel kernel : {Kernel::kLines, Kernel::kRows, Kernel::kChannels, Kernel::kPatches}) {
    const auto plan =
        make_plan(request.problem, request.direction, request.chip, request.with_bias, kernel);
    if (plan) add(*plan);
  }
  if (request.is_aligned) {
    if (const auto plan = make_plan(request.problem, request.direction, request.chip,
                                    request.with_bias, Kernel::kImages)) {
      add(*plan);
    }
    for (const Plan& plan :
         make_bands_plans(request.problem, request.direction, request.chip, request.every_plan)) {
      add(plan);
    }
  }
  if (answer.plans.empty())
    answer.declined = depthwise_declines(request.problem, request.direction);
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "depthwise", .group = "generic", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::depthwise
