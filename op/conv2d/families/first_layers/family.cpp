// Layers with few input channels on Hopper's tensor cores.
#include "conv2d/family.h"

#include "conv2d/families/first_layers/plan.h"

namespace haloconv::first_layers {

void launch(const Plan& plan, const Operands& operands, CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined = sm90::first_layers::declines(request.problem, request.direction,
                                                         request.tf32, request.chip)};
  if (!answer.declined.empty()) return answer;
  const bool copies_output = request.direction != Direction::kFprop;
  if (copies_output && !request.is_aligned) {
    return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  }
  for (const sm90::first_layers::Plan& plan :
       sm90::first_layers::make_plans(request.problem, request.direction, request.chip,
                                      request.with_bias, request.is_aligned)) {
    if (plan.plain && !request.is_aligned) continue;
    auto made = std::make_shared<PlanOf<sm90::first_layers::Plan>>(request.problem, plan);
    made->takes_bias = made->takes_fusion = request.direction == Direction::kFprop;
    made->rounds_to_tf32 = request.problem.type == DataType::kFloat32;
    made->kind = plan.channels * 2 + (plan.plain ? 1 : 0);
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) {
    answer.declined = request.direction == Direction::kDgrad
                          ? "its filter is too large"
                          : "its filter is too large, or its taps do not lie even";
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "first_layers", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::first_layers
