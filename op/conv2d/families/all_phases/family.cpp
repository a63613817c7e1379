// The input's gradient with a stride, on Hopper's tensor cores, of all pixels between the source's
// at once: what transposed convolutions compute.
#include "conv2d/family.h"

#include "conv2d/families/all_phases/arguments.h"
#include "conv2d/families/all_phases/plan.h"

namespace haloconv::all_phases {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

constexpr size_t kMostPlans = 4;

Answer ask(const Request& request) {
  if (request.direction != Direction::kDgrad) {
    return {.declined = "it computes neither forward passes nor weight gradients"};
  }
  const DataType type = request.problem.type;
  const bool has_16_bits = type == DataType::kFloat16 || type == DataType::kBFloat16;
  if (!has_16_bits && !(type == DataType::kFloat32 && request.tf32)) {
    return {.declined = "it multiplies 16-bit types, and float32 in TF32 alone"};
  }
  Answer answer{.declined = declines(request.problem, request.chip)};
  if (!answer.declined.empty()) return answer;
  std::vector<Plan> plans = make_plans(request.problem, request.chip);
  if (!request.every_plan && plans.size() > kMostPlans) plans.resize(kMostPlans);
  for (const Plan& plan : plans) {
    if (plan.arguments->reads_units && !plan.tile.packs_source && !request.is_aligned) continue;
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->takes_bias = made->takes_fusion = true;
    made->rounds_to_tf32 = type == DataType::kFloat32;
    made->kind = plan.tile.blocks * 1000 + plan.tile.columns + int{plan.tile.packs_source} +
                 2 * int{plan.tile.has_groups_apart};
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) {
    answer.declined = "none of its tiles fits in shared memory, or a tensor is not aligned";
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "all_phases", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::all_phases
