// Forward passes of groups of four channels, and input gradients, on any chip; those with a stride
// need its matrix instruction.
#include "conv2d/family.h"

#include <limits>

#include "conv2d/families/quad_groups/plan.h"

namespace haloconv::quad_groups {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined = declines(request.problem, request.direction)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  for (const Plan& plan :
       make_plans(request.problem, request.direction, request.chip, request.every_plan)) {
    if (plan.blocks > std::numeric_limits<int32_t>::max()) continue;
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->takes_bias = true;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) {
    answer.declined = "its tiles are too many, or the chip lacks the matrix instruction";
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "quad_groups", .group = "generic", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::quad_groups
