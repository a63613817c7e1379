// Forward passes and input gradients that compute few channels, on Hopper's tensor cores.
#include "conv2d/family.h"

#include "conv2d/families/few_channels/arguments.h"
#include "conv2d/families/few_channels/plan.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::few_channels {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  if (request.direction == Direction::kWgrad)
    return {.declined = "it computes no weight gradients"};
  const bool is_float32 = request.problem.type == DataType::kFloat32;
  if (is_float32 && !request.tf32) return {.declined = "it multiplies float32 in TF32 alone"};
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (!answer.declined.empty()) return answer;
  if (!is_float32 && !request.is_aligned) {
    return {.declined = "a tensor of 16-bit type does not begin at a multiple of 16 bytes"};
  }
  const Conv2dProblem problem = flattened(request.problem);
  if (!is_float32 && !begins_rows_at_pairs(problem, request.direction)) {
    return {.declined = "rows of a 16-bit type begin at odd elements"};
  }
  const auto plan = make_plan(problem, request.direction, request.chip);
  if (!plan) {
    answer.declined = "none of its kernels has the columns for so many channels and taps";
    return answer;
  }
  auto made = std::make_shared<PlanOf<Plan>>(problem, *plan);
  made->takes_bias = true;
  made->rounds_to_tf32 = is_float32;
  answer.plans.push_back(std::move(made));
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "few_channels", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::few_channels
