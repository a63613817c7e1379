// Forward passes and input gradients of wide filters that compute few channels, on Hopper's tensor
// cores.
#include "conv2d/family.h"

#include "conv2d/families/row_strips/plan.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::row_strips {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

Answer ask(const Request& request) {
  if (request.direction == Direction::kWgrad)
    return {.declined = "it computes no weight gradients"};
  const bool is_float32 = request.problem.type == DataType::kFloat32;
  if (is_float32 && !request.tf32) return {.declined = "it multiplies float32 in TF32 alone"};
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) {
    return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  }
  for (const Plan& plan : make_plans(request.problem, request.direction, request.chip)) {
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, plan);
    made->kind = plan.blocks;
    made->takes_bias = true;
    made->rounds_to_tf32 = is_float32;
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) {
    answer.declined =
        "it takes filters of at most five rows of nine columns, without strides, that compute at "
        "most 32 channels from a multiple of 16 (8 in float32), in rows of whole 16 bytes";
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "row_strips", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::row_strips
