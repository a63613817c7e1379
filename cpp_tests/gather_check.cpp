#include "cpp_tests/gather_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpp_tests/fused_operands.h"
#include "cpp_tests/plan_text.h"

namespace haloconv::testing {

namespace {

std::vector<int64_t> source_positions(const Conv2dProblem& p, Direction direction) {
  return direction == Direction::kFprop ? positions(p.input, p.n, p.c, p.h, p.w)
                                        : positions(p.output, p.n, p.k, p.p(), p.q());
}

}  // namespace

GatherCheck::GatherCheck(const Conv2dProblem& problem, Direction direction, const Values& source,
                         const Values& filter, const Values& bias)
    : problem_(problem),
      direction_(direction),
      source_(source_positions(problem, direction), problem.type),
      filter_(positions(problem.filter, problem.k, problem.group_c(), problem.r, problem.s),
              problem.type),
      bias_(positions({1, 1, 1, 1}, static_cast<int64_t>(bias.size()), 1, 1, 1), problem.type),
      has_bias_(!bias.empty()) {
  source_.set(source);
  filter_.set(filter);
  if (has_bias_) bias_.set(bias);
}

void GatherCheck::run(const FamilyPlan& of, const Values& expected, const Fusion& fusion) const {
  const bool fprop = direction_ == Direction::kFprop;
  const std::string what = text_of(problem_, of);
  const DeviceTensor result(result_positions(problem_, direction_), problem_.type);
  const Buffer workspace(of.plan->workspace_bytes);
  of.launch({.input = fprop ? source_.data() : nullptr,
             .filter = filter_.data(),
             .output = fprop ? nullptr : source_.data(),
             .result = result.data(),
             .bias = has_bias_ ? bias_.data() : nullptr,
             .fusion = fusion,
             .workspace = workspace.data()});
  result.expect(expected, what);
  EXPECT_TRUE(workspace.guards_are_whole()) << what << ": wrote outside its workspace";
}

void GatherCheck::run_plans(std::string_view family, const Chip& chip, const Values& expected,
                            const Fusion& fusion) const {
  const std::vector<FamilyPlan> plans =
      plans_of(family, {.problem = problem_, .direction = direction_, .chip = chip});
  EXPECT_FALSE(plans.empty()) << problem_;
  for (const FamilyPlan& of : plans) {
    run(of, expected, fusion);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace haloconv::testing
