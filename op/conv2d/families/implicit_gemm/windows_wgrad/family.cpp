// Weight and bias gradients of tensors with rows innermost on the tensor cores of every chip since
// compute capability 8.0, where all taps read one window of the input.
#include "conv2d/family.h"

#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"
#include "conv2d/worth_timing.h"

namespace haloconv::windows_wgrad {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  Answer answer{.declined =
                    declines(request.problem, request.direction, request.chip, request.tf32)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) return {.declined = "a tensor's address is no multiple of 16 bytes"};
  WorthTiming worth(request.every_plan);
  for (const Plan& plan :
       make_plans(request.problem, request.chip, request.with_bias, request.every_plan)) {
    const int64_t kind =
        (int64_t{plan.tile.rows} * 65536 + plan.tile.columns) * 2 + int{plan.tile.copies_apart};
    if (!worth.next(kind)) continue;
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->rounds_to_tf32 = request.problem.type == DataType::kFloat32;
    made->kind = kind;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) {
    answer.declined = "rows begin or end at odd places, or no window fits in shared memory";
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "windows_wgrad", .group = "sm80", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::windows_wgrad
