// The weight's gradient on Hopper's tensor cores, for rows innermost.
#include "conv2d/family.h"

#include <algorithm>

#include "conv2d/families/wgrad/plan.h"
#include "conv2d/free_precision.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::wgrad {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

constexpr size_t kMostPlans = 8, kMostPrecise = 2;

Answer ask(const Request& request) {
  if (request.direction != Direction::kWgrad) {
    return {.declined = "it computes weight gradients alone"};
  }
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (!answer.declined.empty()) return answer;
  const Conv2dProblem problem = flattened(request.problem);
  const auto add = [&](bool tf32, size_t most) {
    most = std::min(most, request.most_plans);
    const std::vector<Plan> plans =
        request.every_plan ? make_plans(problem, request.chip, request.with_bias, tf32)
                           : best_plans(problem, request.chip, request.with_bias, tf32, most);
    for (const Plan& plan : plans) {
      auto made = std::make_shared<PlanOf<Plan>>(problem, plan);
      made->rounds_to_tf32 = problem.type == DataType::kFloat32 && tf32;
      made->kind = static_cast<int64_t>(answer.plans.size());  // all are worth being timed
      answer.plans.push_back(std::move(made));
    }
  };
  add(request.tf32, kMostPlans);
  if (answer.plans.empty()) {
    answer.declined = "no window of the input fits in shared memory";
  } else if (answer.plans.front()->rounds_to_tf32 && !request.every_plan &&
             precision_may_be_free(problem, request.chip, *answer.plans.front())) {
    add(false, kMostPrecise);
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "wgrad", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::wgrad
