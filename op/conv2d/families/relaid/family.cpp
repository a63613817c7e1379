// Tensors with rows innermost for the kernels that take channels innermost, and for weight
// gradients the other way: copied before and after.
#include "conv2d/family.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "conv2d/families.h"
#include "conv2d/families/relaid/plan.h"
#include "conv2d/families/relaid/products.h"

namespace haloconv::relaid {

void launch(const haloconv::Plan& plan, const Operands& operands,
            CUstream_st* stream);  // launch.cpp

extern const Family kFamily;

namespace {

constexpr size_t kMostPlans = 2;
constexpr int64_t kMostBytes = int64_t{4} << 30;

// The plans of the other families in this one's group, the one expected to be fastest first.
std::vector<std::pair<const Family*, PlanPointer>> plans_of_others(const Request& request) {
  std::vector<std::pair<const Family*, PlanPointer>> plans;
  for (const Family* family : families()) {
    if (family == &kFamily || family->group != kFamily.group) continue;
    for (PlanPointer& plan : family->ask(request).plans) {
      plans.emplace_back(family, std::move(plan));
    }
  }
  std::stable_sort(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return a.second->estimated_ms < b.second->estimated_ms;
  });
  return plans;
}

// Whether a residual can be copied to where the result will be: in whole 16 bytes of channels, it
// needs as much memory as the result has.
bool has_room_for_residual(const Conv2dProblem& problem, const Plan& plan) {
  const bool dgrad = plan.direction == Direction::kDgrad;
  if (!(dgrad ? plan.relaid.input : plan.relaid.output)) return true;
  const int64_t channels = dgrad ? plan.relaid.problem.c : plan.relaid.problem.k;
  if (channels % elements_of_unit(size_of(problem.type)) != 0) return false;
  Conv2dProblem dense = problem;
  dense.set_dense_strides(false);
  const Strides& strides = dgrad ? problem.input : problem.output;
  const Strides& wanted = dgrad ? dense.input : dense.output;
  const auto all = [](const Strides& s) { return std::array{s.n, s.c, s.h, s.w}; };
  return !plan.relaid.values && all(strides) == all(wanted);
}

// Plans around those for one of the problems that can replace the request's, with kinds from
// `first_kind` on, because all are worth being timed.
Answer answer_by(const Request& request, const RelaidProblem& relaid, int64_t first_kind = 0) {
  if (relaid.bytes() > kMostBytes) return {.declined = "its copies take more than 4 GiB"};
  Answer answer;
  Request inner = request;
  inner.problem = relaid.problem;
  if (relaid.product != Product::kNone) inner.direction = Direction::kFprop;
  inner.is_aligned = true;
  inner.every_plan = false;
  if (!request.every_plan) inner.most_plans = kMostPlans;
  for (const auto& [family, plan] : plans_of_others(inner)) {
    if (!request.every_plan && answer.plans.size() == kMostPlans) break;
    const Plan details = make_plan(request, relaid, *family, plan);
    auto made = std::make_shared<PlanOf<Plan>>(request.problem, details);
    made->rounds_to_tf32 = plan->rounds_to_tf32;
    // The plan in between would not compute what follows at pixels that no tap meets.
    const bool spreads = request.direction == Direction::kDgrad && relaid.skips_pixels;
    const bool takes = !spreads && inner.direction == request.direction;
    made->takes_bias = plan->takes_bias && takes;
    made->takes_fusion =
        plan->takes_fusion && takes && has_room_for_residual(request.problem, details);
    made->kind = first_kind + static_cast<int64_t>(answer.plans.size());
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) {
    answer.declined = std::string("no family takes it with ") +
                      (relaid.has_rows ? "rows" : "channels") + " innermost";
  }
  return answer;
}

// Both lists of plans, the one expected to be fastest first.
Answer merge(Answer one, const Answer& other) {
  one.plans.insert(one.plans.end(), other.plans.begin(), other.plans.end());
  std::stable_sort(one.plans.begin(), one.plans.end(),
                   [](const auto& a, const auto& b) { return a->estimated_ms < b->estimated_ms; });
  if (!one.plans.empty()) one.declined.clear();
  return one;
}

// By problems of the same groups and strides.
Answer answer_alike(const Request& request) {
  const Conv2dProblem& problem = request.problem;
  const Direction direction = request.direction;
  const bool is_aligned = request.is_aligned;
  std::string reason = declines(problem, direction, is_aligned);
  if (!reason.empty()) return {.declined = std::move(reason)};
  if (has_few_channels(problem, direction)) {
    Answer answer = answer_by(request, relay(problem, direction, is_aligned, true));
    if (!answer.plans.empty()) return answer;
  }
  const RelaidProblem relaid = relay(problem, direction, is_aligned, false);
  Answer answer = answer_by(request, relaid);
  if (direction == Direction::kDgrad) return answer;
  const auto keeps_rows = direction == Direction::kFprop ? keep_rows_of_result(problem, relaid)
                                                         : relay_around_output(problem, is_aligned);
  if (!keeps_rows) return answer;
  return merge(answer, answer_by(request, *keeps_rows, kMostPlans));
}

// By problems of other strides or groups, or of another direction.
std::vector<RelaidProblem> others(const Request& request) {
  const Conv2dProblem& problem = request.problem;
  std::vector<RelaidProblem> others;
  if (const auto folded = fold_strides(problem, request.direction, request.is_aligned)) {
    others.push_back(*folded);
  }
  if (request.direction != Direction::kWgrad) return others;
  const auto add = [&](const std::vector<RelaidProblem>& more) {
    others.insert(others.end(), more.begin(), more.end());
  };
  if (others.empty()) add(merge_groups(problem, request.is_aligned));
  if (!request.with_bias) add(products_of(problem, request.is_aligned));
  return others;
}

Answer ask(const Request& request) {
  if (request.chip.compute_capability != 90) {
    return {.declined = "the device is not of compute capability 9.0 but of " +
                        compute_capability_text(request.chip.compute_capability)};
  }
  std::string reason = always_declines(request.problem, request.direction, request.tf32);
  if (!reason.empty()) return {.declined = std::move(reason)};
  Answer answer = answer_alike(request);
  int64_t kind = 2 * kMostPlans;
  for (const RelaidProblem& other : others(request)) {
    answer = merge(std::move(answer), answer_by(request, other, kind));
    kind += kMostPlans;
  }
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "relaid", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::relaid
