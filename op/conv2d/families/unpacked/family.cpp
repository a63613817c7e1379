// Forward passes in TF32 with strides, of tensors whose rows are innermost, from both operands as
// they lie.
#include "conv2d/family.h"

#include "conv2d/families/unpacked/plan.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::unpacked {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  const auto rows_decline = [&] {
    return hopper_rows_decline(request.problem, request.direction, request.chip);
  };
  if (request.chip.compute_capability != 90) return {.declined = rows_decline()};
  if (request.direction != Direction::kFprop) return {.declined = "it computes forward passes"};
  if (request.problem.type != DataType::kFloat32) return {.declined = "the type is not float32"};
  if (!request.tf32) return {.declined = "TF32 is not allowed"};
  Answer answer{.declined = rows_decline()};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) {
    return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  }
  answer.declined = declines(request.problem);
  if (!answer.declined.empty()) return answer;
  constexpr size_t kMostPlans = 4;
  for (const Plan& plan : make_plans(request.problem, request.chip)) {
    if (!request.every_plan && answer.plans.size() == kMostPlans) break;
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->kind = static_cast<int64_t>(answer.plans.size());
    made->takes_bias = true;
    made->rounds_to_tf32 = true;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) answer.declined = "no window fits in shared memory";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "unpacked", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::unpacked
