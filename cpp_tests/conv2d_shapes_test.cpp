// The Hopper plans on every problem of real size: on small integers the same numbers as the generic
// kernels. Needs a Hopper GPU with 20 GB, not torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "conv2d/choice.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/device_values.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

// The plans tested take at most so many times what the best does, or are a choice's: a hundred
// thousand in all, of which the slowest take minutes. HALOCONV_MOST_TIMES=inf takes them all.
double most_times() {
  const char* const times = std::getenv("HALOCONV_MOST_TIMES");
  return times == nullptr ? 2 : std::atof(times);
}

std::vector<FamilyPlan> without_slow(std::vector<FamilyPlan> plans, const Choice& choice) {
  double best = std::numeric_limits<double>::infinity();
  for (const FamilyPlan& of : plans) best = std::min(best, of.plan->estimated_ms);
  std::erase_if(plans, [&](const FamilyPlan& of) {
    const bool is_chosen = std::any_of(
        choice.candidates.begin(), choice.candidates.end(), [&](const Candidate& candidate) {
          return candidate.family == of.family && candidate.plan->text() == of.plan->text();
        });
    return !is_chosen && of.plan->estimated_ms > most_times() * best;
  });
  return plans;
}

// Device memory of so many elements, NaN at first.
class Elements : public Buffer {
 public:
  Elements(DataType type, int64_t count)
      : Buffer(count * size_of(type)), type_(type), count_(count) {}
  Elements(DataType type, int64_t count, uint32_t seed) : Elements(type, count) {
    fill_small_integers(data(), type, count, seed);
  }

  void expect(const Elements& expected, const std::string& what) const {
    EXPECT_EQ(count_differences(data(), expected.data(), type_, count_), 0)
        << what << ": of " << count_;
    EXPECT_TRUE(guards_are_whole()) << what << ": wrote outside its result";
  }

 private:
  DataType type_;
  int64_t count_;
};

class Sm90Shapes : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }

  template <class... Seed>
  Elements elements(int64_t count, Seed... seed) const {
    return Elements(p_.type, count, seed...);
  }

  bool is_taken(Direction direction) const {
    return hopper_rows_decline(p_, direction, gpu()).empty();
  }

  Request request(Direction direction) const {
    return {.problem = p_,
            .direction = direction,
            .chip = gpu(),
            .tf32 = GetParam().tf32,
            .with_bias = direction == Direction::kWgrad};
  }

  // By the generic family's plan, then by each of the group's: with the operands' bias those that
  // take one, without it the others, whose caller adds it.
  void check(Direction direction, const Operands& operands, int64_t count) const {
    std::vector<FamilyPlan> with_bias, without_bias;
    for (const FamilyPlan& of :
         without_slow(plans_of("sm90", request(direction)), choose(request(direction))))
      (of.plan->takes_bias ? with_bias : without_bias).push_back(of);
    if (!with_bias.empty()) check(direction, operands, count, with_bias);
    Operands unbiased = operands;
    unbiased.bias = nullptr;
    if (!without_bias.empty()) check(direction, unbiased, count, without_bias);
  }

  void check(Direction direction, Operands operands, int64_t count,
             const std::vector<FamilyPlan>& plans) const {
    const bool wgrad = direction == Direction::kWgrad;
    const auto run = [&](const FamilyPlan& of, const Elements& result, const Elements& bias) {
      const Buffer workspace(of.plan->workspace_bytes);
      operands.result = result.data();
      operands.grad_bias = wgrad ? bias.data() : nullptr;
      operands.workspace = workspace.data();
      of.launch(operands);
      EXPECT_TRUE(workspace.guards_are_whole()) << text_of(p_, of);
    };
    const Elements expected = elements(count), expected_bias = elements(p_.k);
    const Family* const generic = families().back();
    run({generic, generic->ask(request(direction)).plans.front()}, expected, expected_bias);
    for (const FamilyPlan& of : plans) {
      const Elements result = elements(count), bias = elements(p_.k);
      run(of, result, bias);
      result.expect(expected, text_of(p_, of));
      if (wgrad) bias.expect(expected_bias, text_of(p_, of) + " bias");
      if (HasFailure()) return;
    }
  }

  const Conv2dProblem p_ = GetParam().problem;
};

TEST_P(Sm90Shapes, FpropIsExact) {
  if (!is_taken(Direction::kFprop)) return;
  const Elements input = elements(input_count(p_), 1), filter = elements(filter_count(p_), 2),
                 bias = elements(p_.k, 3);
  check(Direction::kFprop, {.input = input.data(), .filter = filter.data(), .bias = bias.data()},
        output_count(p_));
}

TEST_P(Sm90Shapes, DgradIsExact) {
  if (!is_taken(Direction::kDgrad)) return;
  const Elements grad_output = elements(output_count(p_), 1),
                 filter = elements(filter_count(p_), 2);
  check(Direction::kDgrad, {.filter = filter.data(), .output = grad_output.data()},
        input_count(p_));
}

TEST_P(Sm90Shapes, WgradIsExact) {
  if (!is_taken(Direction::kWgrad)) return;
  const Elements grad_output = elements(output_count(p_), 1), input = elements(input_count(p_), 2);
  check(Direction::kWgrad, {.input = input.data(), .output = grad_output.data()}, filter_count(p_));
}

auto each_of(const char* file) { return ::testing::ValuesIn(sm90_shapes(file)); }

INSTANTIATE_TEST_SUITE_P(Reference, Sm90Shapes, each_of("reference"), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Layers, Sm90Shapes, each_of("layers"), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Networks, Sm90Shapes, each_of("networks"), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Transposed, Sm90Shapes, each_of("transposed"), name_of_typed);
INSTANTIATE_TEST_SUITE_P(OneDimensional, Sm90Shapes, each_of("one_dimensional"), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
