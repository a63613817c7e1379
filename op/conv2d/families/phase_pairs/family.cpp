// Input gradients with a stride of 2 along rows, on Hopper's tensor cores, which transposed
// convolutions compute.
#include "conv2d/family.h"

#include "conv2d/families/phase_pairs/arguments.h"
#include "conv2d/families/phase_pairs/plan.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::phase_pairs {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

constexpr size_t kMostPlans = 4;

Answer ask(const Request& request) {
  if (request.direction != Direction::kDgrad) {
    return {.declined = "it computes neither forward passes nor weight gradients"};
  }
  if (request.problem.type != DataType::kFloat32 || !request.tf32) {
    return {.declined = "it multiplies float32 in TF32 alone"};
  }
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (answer.declined.empty()) answer.declined = declines(request.problem);
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) {
    return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  }
  std::vector<Plan> plans = make_plans(request.problem, request.chip);
  if (!request.every_plan && plans.size() > kMostPlans) plans.resize(kMostPlans);
  for (const Plan& plan : plans) {
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->takes_bias = made->takes_fusion = true;
    made->rounds_to_tf32 = true;
    made->kind = plan.tile.blocks * 1000 + plan.tile.channels;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) answer.declined = "none of its tiles fits in shared memory";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "phase_pairs", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::phase_pairs
