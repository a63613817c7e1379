// fprop and dgrad on the tensor cores of every chip since compute capability 8.0.
//
// This folder has the kernel that gathers the source for each tap, and what all kinds of kernel
// share: the products that they compute (arguments.h), their plans and their launches. The other
// kinds have folders of their own. docs/families.md says which of them runs when.
#include "conv2d/family.h"

#include <utility>

#include "conv2d/families/implicit_gemm/plan.h"
#include "conv2d/worth_timing.h"

namespace haloconv::implicit_gemm {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined =
                    declines(request.problem, request.direction, request.chip, request.tf32)};
  if (!answer.declined.empty()) return answer;
  std::vector<Plan> plans =
      make_plans(request.problem, request.direction, request.chip, request.is_aligned);
  WorthTiming worth(request.every_plan);
  for (Plan& plan : plans) {
    const int64_t kind = (int64_t{plan.tile.pixels} * 65536 + plan.tile.channels) * 16 +
                         (plan.is_of_team ? 8 : 0) + (plan.interleaves ? 4 : 0) +
                         (plan.strips ? 2 : 0) + (plan.windows().count > 0 ? 1 : 0);
    if (!worth.next(kind)) continue;
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, std::move(plan));
    made->takes_bias = true;
    made->takes_fusion = true;
    made->rounds_to_tf32 = request.problem.type == DataType::kFloat32;
    made->kind = kind;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) answer.declined = "every kernel needs a grid of more than 2^31 blocks";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "implicit_gemm", .group = "sm80", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::implicit_gemm
