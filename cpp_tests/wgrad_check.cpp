#include "cpp_tests/wgrad_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpp_tests/plan_text.h"

namespace haloconv::testing {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// All bits behind the sign are set, so that an addition to the bits, as for rounding, would make a
// number of it.
constexpr auto kNan = std::bit_cast<double>(~uint64_t{0} >> 1);

// An infinity of either sign in every `distance`-th place.
void scatter_infinities(Values& values, size_t distance) {
  for (size_t i = distance / 2; i < values.size(); i += distance) {
    values[i] = i / distance % 2 == 0 ? kInfinity : -kInfinity;
  }
}

std::vector<int64_t> moved(std::vector<int64_t> positions, int64_t offset) {
  for (int64_t& at : positions) at += offset;
  return positions;
}

}  // namespace

WgradCheck::WgradCheck(const Conv2dProblem& problem, const Values& grad_output, const Values& input,
                       int64_t offset)
    : problem_(problem),
      expected_(reference_padded_wgrad(problem, grad_output, input)),
      expected_bias_(reference_bias_grad(problem, grad_output)),
      input_(positions(problem.input, problem.n, problem.c, problem.h, problem.w), problem.type),
      grad_output_(
          moved(positions(problem.output, problem.n, problem.k, problem.p(), problem.q()), offset),
          problem.type),
      offset_bytes_(offset * size_of(problem.type)) {
  input_.set(input);
  grad_output_.set(grad_output);
}

void WgradCheck::run(const FamilyPlan& of, bool with_bias) const {
  const Conv2dProblem& p = problem_;
  const std::string what = text_of(p, of);
  const DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
  const DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
  const Buffer workspace(of.plan->workspace_bytes);
  of.launch({.input = input_.data(),
             .output = grad_output_.data() + offset_bytes_,
             .result = filter.data(),
             .grad_bias = with_bias ? bias.data() : nullptr,
             .workspace = workspace.data()});
  filter.expect(expected_, what);
  if (with_bias) bias.expect(expected_bias_, what + " bias");
  EXPECT_TRUE(workspace.guards_are_whole()) << what << ": wrote outside its workspace";
}

void check_wgrad(std::string_view family, const Conv2dProblem& problem, const Chip& chip,
                 const Values& grad_output, const Values& input) {
  const WgradCheck check(problem, grad_output, input);
  for (const bool with_bias : {false, true}) {
    const std::vector<FamilyPlan> plans = plans_of(
        family,
        {.problem = problem, .direction = Direction::kWgrad, .chip = chip, .with_bias = with_bias});
    EXPECT_FALSE(plans.empty()) << problem;
    for (const FamilyPlan& of : plans) {
      check.run(of, with_bias);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

void check_wgrad(std::string_view family, const Conv2dProblem& problem, const Chip& chip) {
  check_wgrad(family, problem, chip, small_integers(output_count(problem), 1),
              small_integers(input_count(problem), 2));
}

// The last pixel of a row, and of an image, are where patches reach beyond grad_output.
void check_wgrad_near_infinities(std::string_view family, const Conv2dProblem& problem,
                                 const Chip& chip) {
  Values grad_output = small_integers(output_count(problem), 1);
  Values input = small_integers(input_count(problem), 2);
  const auto size = static_cast<size_t>(problem.h * problem.w);
  input[size - 1] = kInfinity;                                    // n = 0, c = 0
  input[size + static_cast<size_t>(problem.w) - 1] = -kInfinity;  // c = 1
  input[2 * size] = kNan;                                         // c = 2
  check_wgrad(family, problem, chip, grad_output, input);
  grad_output.back() = kInfinity;
  check_wgrad(family, problem, chip, grad_output, input);
}

void check_wgrad_of_many_infinities(std::string_view family, const Conv2dProblem& problem,
                                    const Chip& chip) {
  const Values finite_grad_output = small_integers(output_count(problem), 1);
  const Values finite_input = small_integers(input_count(problem), 2);

  Values input = finite_input;
  scatter_infinities(input, 1 + input.size() / 100);
  input[input.size() / 3] = kNan;
  check_wgrad(family, problem, chip, finite_grad_output, input);

  // All of one sign, so that most results are infinities and not NaN.
  Values positive = finite_grad_output;
  for (double& value : positive) value = std::abs(value) + 1;
  std::fill(input.begin(), input.end(), kInfinity);
  check_wgrad(family, problem, chip, positive, input);
  scatter_infinities(input, 7);
  check_wgrad(family, problem, chip, positive, input);

  Values grad_output = finite_grad_output;
  scatter_infinities(grad_output, 1 + grad_output.size() / 5);
  grad_output.front() = kNan;
  check_wgrad(family, problem, chip, grad_output, finite_input);
}

// Of one sign in each channel, times positive numbers: results are infinities or finite.
void check_wgrad_of_infinite_ends(std::string_view family, const Conv2dProblem& problem,
                                  const Chip& chip) {
  Values grad_output = small_integers(output_count(problem), 1);
  for (double& value : grad_output) value = std::abs(value) + 1;
  Values input = small_integers(input_count(problem), 2);
  const auto w = static_cast<size_t>(problem.w), size = static_cast<size_t>(problem.h) * w;
  for (size_t i = w - 1; i < input.size(); i += w) {
    input[i] = i / size % 2 == 0 ? kInfinity : -kInfinity;
  }
  check_wgrad(family, problem, chip, grad_output, input);
}

}  // namespace haloconv::testing
