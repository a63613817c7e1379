// Forward and the input's gradient on Hopper's tensor cores, for rows innermost.
#include "conv2d/family.h"

#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/rows_innermost.h"

namespace haloconv::halo {

void launch(const Plan& plan, const Operands& operands, CUstream_st* stream);  // launch.cpp

namespace {

constexpr size_t kMostPlans = 8;

// Plans with another tile, share or fold are of another kind.
int64_t kind_of(const sm90::Plan& plan) {
  const sm90::Tile& tile = plan.tile;
  int64_t kind = 0;
  for (const int value : {tile.width, tile.instructions, int{tile.strips},
                          static_cast<int>(tile.share), plan.fold, int{plan.fold_columns}}) {
    kind = kind * 256 + value;
  }
  return kind;
}

Answer ask(const Request& request) {
  if (request.direction == Direction::kWgrad)
    return {.declined = "it computes no weight gradients"};
  Answer answer{.declined =
                    hopper_rows_decline(request.problem, request.direction, request.device)};
  if (!answer.declined.empty()) return answer;
  const Conv2dProblem problem = flattened(request.problem);
  auto plans = sm90::make_plans(problem, request.direction, request.device, request.tf32);
  if (!request.every_plan) plans = sm90::best_of_kinds(plans, kMostPlans);
  for (const sm90::Plan& plan : plans) {
    auto made = std::make_shared<PlanOf<sm90::Plan>>(problem, plan);
    made->takes_bias = true;
    made->takes_fusion = takes_fusion(plan);
    made->kind = kind_of(plan);
    answer.plans.push_back(std::move(made));
  }
  if (plans.empty()) answer.declined = "no tile with its halo fits in shared memory";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "halo", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::halo
