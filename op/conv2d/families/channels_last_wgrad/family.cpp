// The weight's gradient of 16-bit types on Hopper's tensor cores, for channels innermost.
#include "conv2d/family.h"

#include "conv2d/families/channels_last_wgrad/plan.h"
#include "conv2d/geometry/full_filter.h"

namespace haloconv::channels_last_wgrad {

void launch(const Plan& plan, const Operands& operands, CUstream_st* stream);  // launch.cpp

namespace {

constexpr size_t kMostPlans = 8;

Answer ask(const Request& request) {
  if (request.direction != Direction::kWgrad) {
    return {.declined = "it computes weight gradients alone"};
  }
  const Conv2dProblem problem = as_one_pixel(request.problem).value_or(request.problem);
  Answer answer{.declined = sm90::channels_last_wgrad::decline(problem, request.chip)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  const auto plans = sm90::channels_last_wgrad::make_plans(problem, request.chip, request.with_bias,
                                                           request.every_plan);
  if (plans.empty()) answer.declined = "no box of the input fits in shared memory";
  for (const auto& plan : plans) {
    if (!request.every_plan && answer.plans.size() == kMostPlans) break;
    auto made = std::make_shared<PlanOf<sm90::channels_last_wgrad::Plan>>(problem, plan);
    made->kind = static_cast<int64_t>(answer.plans.size());  // all are worth being timed
    answer.plans.push_back(std::move(made));
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "channels_last_wgrad", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::channels_last_wgrad
