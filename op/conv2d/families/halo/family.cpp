// Forward and the input's gradient on Hopper's tensor cores, for rows innermost.
#include "conv2d/family.h"

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/free_precision.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::halo {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

constexpr size_t kMostPlans = 8, kMostPrecise = 2;

// Plans with another tile, share, fold, precision or way of writing are of another kind.
int64_t kind_of(const Plan& plan) {
  const Tile& tile = plan.tile;
  int64_t kind = 0;
  for (const int value : {tile.width, tile.instructions, int{tile.patches},
                          static_cast<int>(tile.share), plan.fold, int{plan.fold_columns},
                          int{plan.precise}, tile.copied + copies_lines(tile) + is_flat(tile)}) {
    kind = kind * 256 + value;
  }
  return kind;
}

void add(const Conv2dProblem& problem, const std::vector<Plan>& plans, bool rounds_to_tf32,
         Answer& answer) {
  for (const Plan& plan : plans) {
    auto made = std::make_shared<PlanOf<Plan>>(problem, plan);
    made->takes_bias = true;
    made->takes_fusion = takes_fusion(plan);
    made->rounds_to_tf32 = rounds_to_tf32;
    made->kind = kind_of(plan);
    answer.plans.push_back(std::move(made));
  }
}

Answer ask(const Request& request) {
  if (request.direction == Direction::kWgrad)
    return {.declined = "it computes no weight gradients"};
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (!answer.declined.empty()) return answer;
  const Conv2dProblem problem = flattened(request.problem);
  const auto plans_of = [&](bool tf32, size_t most) {
    return request.every_plan ? make_plans(problem, request.direction, request.chip, tf32)
                              : best_plans(problem, request.direction, request.chip, tf32, most);
  };
  const bool rounds = problem.type == DataType::kFloat32 && request.tf32;
  add(problem, plans_of(request.tf32, kMostPlans), rounds, answer);
  if (answer.plans.empty()) {
    answer.declined = "no tile with its halo fits in shared memory";
  } else if (rounds && !request.every_plan &&
             precision_may_be_free(problem, request.chip, *answer.plans.front())) {
    add(problem, plans_of(false, kMostPrecise), false, answer);
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "halo", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::halo
