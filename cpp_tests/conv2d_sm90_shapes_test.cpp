// The Hopper plans on every problem of real size: on small integers the same numbers as the generic
// kernels. Needs a Hopper GPU with 20 GB, not torch.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "conv2d/choice.h"
#include "conv2d/conv2d.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/device_values.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

// The plans tested take at most so many times what the best does, or are a choice's: a hundred
// thousand in all, of which the slowest take minutes. HALOCONV_MOST_TIMES=inf takes them all.
double most_times() {
  const char* const times = std::getenv("HALOCONV_MOST_TIMES");
  return times == nullptr ? 2 : std::atof(times);
}

template <class Plan>
std::vector<Plan> without_slow(std::vector<Plan> plans, const std::vector<Plan>& chosen) {
  if (plans.empty()) return plans;
  const double most = most_times() * plans.front().estimated_ms;
  std::erase_if(plans, [&](const Plan& plan) { return plan.estimated_ms > most; });
  for (const Plan& plan : chosen) {
    if (plan.estimated_ms > most) plans.push_back(plan);
  }
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

template <class Plan>
std::string text_of(const Conv2dProblem& p, const Plan& plan) {
  std::ostringstream text;
  text << p << " | " << plan;
  return text.str();
}

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

  bool is_taken(Direction direction) const { return sm90::declines(p_, direction, gpu()).empty(); }

  Choice choice(Direction direction) const {
    return choose(p_, direction, gpu(), {.tf32 = GetParam().tf32}, true);
  }

  // compute(plan, result, workspace), by the generic plan and by each of ours.
  template <class Compute>
  void check(Direction direction, int64_t count, Compute compute) const {
    const Elements expected = elements(count), result = elements(count);
    const auto run = [&](const auto& plan, const Elements& result) {
      const Buffer workspace(plan.workspace_bytes);
      compute(plan, result.data(), workspace.data());
      EXPECT_TRUE(workspace.guards_are_whole()) << text_of(p_, plan);
    };
    run(plan_generic(p_, direction, gpu(), false), expected);
    for (const sm90::Plan& plan :
         without_slow(sm90::make_plans(p_, direction, gpu(), GetParam().tf32),
                      choice(direction).sm90_plans)) {
      result.poison();
      run(plan, result);
      result.expect(expected, text_of(p_, plan));
      if (HasFailure()) return;
    }
  }

  const Conv2dProblem p_ = GetParam().problem;
};

TEST_P(Sm90Shapes, FpropIsExact) {
  if (!is_taken(Direction::kFprop)) return;
  const Elements input = elements(input_count(p_), 1), filter = elements(filter_count(p_), 2),
                 bias = elements(p_.k, 3);
  check(Direction::kFprop, output_count(p_), [&](const auto& plan, void* to, void* workspace) {
    conv2d_fprop(p_, plan, input.data(), filter.data(), bias.data(), to, workspace, nullptr);
  });
}

TEST_P(Sm90Shapes, DgradIsExact) {
  if (!is_taken(Direction::kDgrad)) return;
  const Elements grad_output = elements(output_count(p_), 1),
                 filter = elements(filter_count(p_), 2);
  check(Direction::kDgrad, input_count(p_), [&](const auto& plan, void* to, void* workspace) {
    conv2d_dgrad(p_, plan, grad_output.data(), filter.data(), to, workspace, nullptr);
  });
}

TEST_P(Sm90Shapes, WgradIsExact) {
  if (!is_taken(Direction::kWgrad)) return;
  const Elements grad_output = elements(output_count(p_), 1), input = elements(input_count(p_), 2);
  const Elements expected = elements(filter_count(p_)), expected_bias = elements(p_.k);
  const auto run = [&](const auto& plan, const Elements& filter, const Elements& bias) {
    const Buffer workspace(plan.workspace_bytes);
    conv2d_wgrad(p_, plan, grad_output.data(), input.data(), filter.data(), bias.data(),
                 workspace.data(), nullptr);
    EXPECT_TRUE(workspace.guards_are_whole()) << text_of(p_, plan);
  };
  run(plan_generic(p_, Direction::kWgrad, gpu(), true), expected, expected_bias);
  for (const sm90::wgrad::Plan& plan :
       without_slow(sm90::wgrad::make_plans(p_, gpu(), true, GetParam().tf32),
                    choice(Direction::kWgrad).sm90_wgrad_plans)) {
    const Elements filter = elements(filter_count(p_)), bias = elements(p_.k);
    run(plan, filter, bias);
    filter.expect(expected, text_of(p_, plan));
    bias.expect(expected_bias, text_of(p_, plan) + " bias");
    if (HasFailure()) return;
  }
}

auto each_of(const char* file) { return ::testing::ValuesIn(sm90_shapes(file)); }

INSTANTIATE_TEST_SUITE_P(Reference, Sm90Shapes, each_of("reference"), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Layers, Sm90Shapes, each_of("layers"), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Networks, Sm90Shapes, each_of("networks"), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
