// Filters of one tap as matrix products, on Hopper's tensor cores: of 16-bit types, and the weight
// gradient of float32 in TF32.
#include "conv2d/family.h"

#include <algorithm>
#include <type_traits>

#include "conv2d/families/pointwise/full_filter.h"
#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/families/pointwise/plan.h"
#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/families/pointwise/wgrad_plan.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::pointwise {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

// What a plan for the unfolded problem is for the whole.
template <class Details>
Details with_copy(Details plan, const Request& request, const std::optional<Unfold>& unfold) {
  if (!unfold) return plan;
  plan.unfold = unfold;
  plan.workspace_bytes += unfold->workspace_bytes();
  plan.estimated_ms += unfold_ms(request.problem, *unfold, request.direction, request.chip);
  return plan;
}

template <class Details>
void add(const Conv2dProblem& problem, const Details& plan, bool takes_bias, Answer& answer) {
  auto made = std::make_shared<PlanOf<Details>>(problem, plan);
  made->takes_bias = takes_bias;
  made->rounds_to_tf32 = problem.type == DataType::kFloat32;
  made->kind = int64_t{plan.tile.rows} * 65536 + plan.tile.columns;
  if constexpr (std::is_same_v<Details, WgradPlan>) {
    if (plan.flat_copy) made->kind += int64_t{1} << 32;
    if (plan.paired) made->kind += int64_t{1} << 33;
  }
  answer.plans.push_back(std::move(made));
}

// What float32 wants beside one tap.
std::string tf32_declines(const Request& request) {
  if (request.problem.type != DataType::kFloat32) return "";
  if (!request.tf32) return "TF32 is not allowed";
  return request.is_aligned ? "" : "a tensor does not begin at a multiple of 16 bytes";
}

void sort(Answer& answer) {
  std::stable_sort(answer.plans.begin(), answer.plans.end(),
                   [](const auto& a, const auto& b) { return a->estimated_ms < b->estimated_ms; });
}

Answer answer_of_full_filter(const Request& request, const Conv2dProblem& product) {
  Answer answer{.declined = hopper_rows_decline(product, Direction::kWgrad, request.chip)};
  if (answer.declined.empty()) answer.declined = one_tap_declines(product, Direction::kWgrad);
  if (answer.declined.empty()) answer.declined = tf32_declines(request);
  if (!answer.declined.empty()) return answer;
  for (WgradPlan plan : make_wgrad_plans(product, request.chip, false)) {
    plan.is_full_filter = true;
    add(product, plan, false, answer);
  }
  sort(answer);
  if (answer.plans.empty()) answer.declined = "its tiles are too many";
  return answer;
}

std::optional<WgradPlan> paired_plan_of(const Request& request) {
  const bool may_round = request.problem.type != DataType::kFloat32 || request.tf32;
  if (request.direction != Direction::kWgrad || !request.is_aligned || !may_round) {
    return std::nullopt;
  }
  return make_paired_plan(request.problem, request.chip, request.with_bias);
}

Answer ask(const Request& request) {
  if (request.direction == Direction::kFprop) {
    const auto product = product_of_full_filter(request.problem);
    if (product) return answer_of_full_filter(request, *product);
  }
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (!answer.declined.empty()) return answer;
  const std::optional<Spread> spread =
      request.direction == Direction::kDgrad ? spread_of(request.problem) : std::nullopt;
  const std::optional<Unfold> unfold =
      spread ? std::nullopt : unfold_of(request.problem, request.direction);
  const Conv2dProblem problem = spread   ? one_tap_of(request.problem)
                                : unfold ? unfolded(request.problem)
                                         : flattened(request.problem);
  const std::optional<WgradPlan> paired = paired_plan_of(request);
  answer.declined = one_tap_declines(problem, request.direction);
  if (answer.declined.empty()) answer.declined = tf32_declines(request);
  if (!answer.declined.empty() && !paired) return answer;
  if (paired) add(unfolded(request.problem), *paired, false, answer);
  if (!answer.declined.empty()) {
    answer.declined.clear();
    return answer;
  }
  if (request.direction == Direction::kWgrad) {
    for (WgradPlan plan : make_wgrad_plans(problem, request.chip, request.with_bias)) {
      // Measured of copies, where 16 bytes are pixels of two rows of the operand.
      if (unfold && plan.arguments->pixel_unit < 8) plan.estimated_ms *= 1.25;
      add(problem, with_copy(plan, request, unfold), false, answer);
    }
    const auto flat = unfold ? std::nullopt : flat_copy_of(problem);
    if (flat) {
      for (WgradPlan plan :
           make_wgrad_plans(of_one_image(problem), request.chip, request.with_bias)) {
        plan.flat_copy = flat;
        plan.workspace_bytes += flat->workspace_bytes();
        plan.estimated_ms += flat_copy_ms(*flat, request.chip);
        add(problem, plan, false, answer);
      }
    }
  } else {
    // The bias of the gradient's zeros would be missing.
    const bool takes_bias = !unfold || request.direction == Direction::kFprop;
    for (const auto& plan : make_plans(problem, request.direction, request.chip, spread)) {
      add(problem, with_copy(plan, request, unfold), takes_bias, answer);
    }
  }
  sort(answer);
  if (answer.plans.empty())
    answer.declined = "the filter's input channels are not contiguous, or its tiles are too many";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "pointwise", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::pointwise
