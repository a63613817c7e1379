// The weight's gradient of float32 in TF32 on Hopper's tensor cores, for channels innermost.
#include "conv2d/family.h"

#include "conv2d/families/channels_last_tf32_wgrad/plan.h"
#include "conv2d/geometry/full_filter.h"

namespace haloconv::channels_last_tf32_wgrad {

void launch(const Plan& plan, const Operands& operands, CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  if (request.direction != Direction::kWgrad) {
    return {.declined = "it computes weight gradients alone"};
  }
  namespace own = sm90::channels_last_tf32_wgrad;
  const Conv2dProblem problem = as_one_pixel(request.problem).value_or(request.problem);
  Answer answer{.declined = own::declines(problem, request.tf32, request.chip)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  for (const own::Plan& plan :
       own::make_plans(problem, request.chip, request.with_bias, request.every_plan)) {
    auto made = std::make_shared<PlanOf<own::Plan>>(problem, plan);
    made->rounds_to_tf32 = true;
    made->kind = static_cast<int64_t>(answer.plans.size());  // all are worth being timed
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) answer.declined = "no box of the input fits in shared memory";
  return answer;
}

}  // namespace

extern const Family kFamily{.name = "channels_last_tf32_wgrad",
                            .group = "sm90",
                            .ask = &ask,
                            .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::channels_last_tf32_wgrad
