// The last layers of networks with channels innermost, in 16 bits and float32, on any chip.
#include "conv2d/family.h"

#include "conv2d/families/heads/plan.h"

namespace haloconv::heads {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined = declines(request.problem, request.direction)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  auto made = std::make_shared<PlanOf<Plan>>(
      request.problem, make_plan(request.problem, request.direction, request.chip));
  made->takes_bias = true;
  answer.plans.push_back(std::move(made));
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "heads", .group = "generic", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::heads
