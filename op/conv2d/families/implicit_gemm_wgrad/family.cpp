// Weight and bias gradients on the tensor cores of every chip since compute capability 8.0.
#include "conv2d/family.h"

#include "conv2d/families/implicit_gemm_wgrad/plan.h"
#include "conv2d/worth_timing.h"

namespace haloconv::implicit_gemm_wgrad {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined =
                    declines(request.problem, request.direction, request.chip, request.tf32)};
  if (!answer.declined.empty()) return answer;
  WorthTiming worth(request.every_plan);
  for (const Plan& plan : make_plans(request.problem, request.chip, request.with_bias,
                                     request.is_aligned, request.every_plan)) {
    const int64_t kind = int64_t{plan.tile.rows} * 65536 + plan.tile.columns;
    if (!worth.next(kind)) continue;
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->rounds_to_tf32 = request.problem.type == DataType::kFloat32;
    made->kind = kind;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) answer.declined = "every kernel needs a grid of more than 2^31 blocks";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "implicit_gemm_wgrad", .group = "sm80", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::implicit_gemm_wgrad
