// Groups of one channel without shared windows, on any chip.
#include "conv2d/family.h"

#include <limits>

#include "conv2d/families/depthwise_direct/plan.h"

namespace haloconv::depthwise_direct {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined = declines(request.problem, request.direction)};
  if (!answer.declined.empty()) return answer;
  for (const Plan& plan : make_plans(request.problem, request.direction, request.chip)) {
    if (plan.kernel != Kernel::kSquares && !request.is_aligned) {
      return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
    }
    if (plan.blocks > std::numeric_limits<int32_t>::max()) {
      return {.declined = "its tiles are too many"};
    }
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->takes_bias = made->takes_fusion = true;
    made->kind = plan.small ? 1 : 0;
    answer.plans.push_back(std::move(made));
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "depthwise_direct", .group = "generic", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::depthwise_direct
