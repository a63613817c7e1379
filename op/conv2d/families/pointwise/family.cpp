// Filters of one tap on 16-bit types as matrix products, on Hopper's tensor cores.
#include "conv2d/family.h"

#include <algorithm>

#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/families/pointwise/plan.h"
#include "conv2d/families/pointwise/wgrad_plan.h"
#include "conv2d/geometry/rows_innermost.h"

namespace haloconv::pointwise {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

namespace {

template <class Details>
void add(const Conv2dProblem& problem, const Details& plan, bool takes_bias, Answer& answer) {
  auto made = std::make_shared<PlanOf<Details>>(problem, plan);
  made->takes_bias = takes_bias;
  made->kind = int64_t{plan.tile.rows} * 65536 + plan.tile.columns;
  answer.plans.push_back(std::move(made));
}

Answer ask(const Request& request) {
  Answer answer{.declined = hopper_rows_decline(request.problem, request.direction, request.chip)};
  if (!answer.declined.empty()) return answer;
  const std::optional<Spread> spread =
      request.direction == Direction::kDgrad ? spread_of(request.problem) : std::nullopt;
  const Conv2dProblem problem = spread ? one_tap_of(request.problem) : flattened(request.problem);
  answer.declined = one_tap_declines(problem);
  if (!answer.declined.empty()) return answer;
  if (request.direction == Direction::kWgrad) {
    for (const auto& plan : make_wgrad_plans(problem, request.chip, request.with_bias)) {
      add(problem, plan, false, answer);
    }
  } else {
    for (const auto& plan : make_plans(problem, request.direction, request.chip, spread)) {
      add(problem, plan, true, answer);
    }
  }
  std::stable_sort(answer.plans.begin(), answer.plans.end(),
                   [](const auto& a, const auto& b) { return a->estimated_ms < b->estimated_ms; });
  if (answer.plans.empty())
    answer.declined = "the filter's input channels are not contiguous, or its tiles are too many";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "pointwise", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::pointwise
