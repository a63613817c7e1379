// The Hopper plans on every problem of real size: on small integers the same numbers as the generic
// kernels. Needs a Hopper GPU with 20 GB, not torch.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "conv2d/choice.h"
#include "conv2d/conv2d.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/device_values.h"
#include "cpp_tests/shapes.h"

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

// Device memory of so many floats, NaN at first.
class Floats : public Buffer {
 public:
  explicit Floats(int64_t count) : Buffer(count * 4), count_(count) {}
  Floats(int64_t count, uint32_t seed) : Floats(count) { fill_small_integers(at(), count, seed); }

  float* at() const { return reinterpret_cast<float*>(data()); }
  void expect(const Floats& expected, const std::string& what) const {
    EXPECT_EQ(count_differences(at(), expected.at(), count_), 0) << what << ": of " << count_;
    EXPECT_TRUE(guards_are_whole()) << what << ": wrote outside its result";
  }

 private:
  int64_t count_;
};

template <class Plan>
std::string text_of(const Conv2dProblem& p, const Plan& plan) {
  std::ostringstream text;
  text << p << " | " << plan;
  return text.str();
}

class Sm90Shapes : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }

  bool is_taken(Direction direction) const {
    return sm90::declines(p_, direction, gpu(), true).empty();
  }

  Choice choice(Direction direction) const { return choose(p_, direction, gpu(), {}, true); }

  // compute(plan, result, workspace), by the generic plan and by each of ours.
  template <class Compute>
  void check(Direction direction, int64_t count, Compute compute) const {
    const Floats expected(count), result(count);
    const auto run = [&](const auto& plan, const Floats& result) {
      const Buffer workspace(plan.workspace_bytes);
      compute(plan, result.at(), workspace.data());
      EXPECT_TRUE(workspace.guards_are_whole()) << text_of(p_, plan);
    };
    run(plan_generic(p_, direction, gpu(), false), expected);
    for (const sm90::Plan& plan :
         without_slow(sm90::make_plans(p_, direction, gpu()), choice(direction).sm90_plans)) {
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
  const Floats input(input_count(p_), 1), filter(filter_count(p_), 2), bias(p_.k, 3);
  check(Direction::kFprop, output_count(p_), [&](const auto& plan, float* to, void* workspace) {
    conv2d_fprop(p_, plan, input.at(), filter.at(), bias.at(), to, workspace, nullptr);
  });
}

TEST_P(Sm90Shapes, DgradIsExact) {
  if (!is_taken(Direction::kDgrad)) return;
  const Floats grad_output(output_count(p_), 1), filter(filter_count(p_), 2);
  check(Direction::kDgrad, input_count(p_), [&](const auto& plan, float* to, void* workspace) {
    conv2d_dgrad(p_, plan, grad_output.at(), filter.at(), to, workspace, nullptr);
  });
}

TEST_P(Sm90Shapes, WgradIsExact) {
  if (!is_taken(Direction::kWgrad)) return;
  const Floats grad_output(output_count(p_), 1), input(input_count(p_), 2);
  const Floats expected(filter_count(p_)), expected_bias(p_.k);
  const auto run = [&](const auto& plan, const Floats& filter, const Floats& bias) {
    const Buffer workspace(plan.workspace_bytes);
    conv2d_wgrad(p_, plan, grad_output.at(), input.at(), filter.at(), bias.at(), workspace.data(),
                 nullptr);
    EXPECT_TRUE(workspace.guards_are_whole()) << text_of(p_, plan);
  };
  run(plan_generic(p_, Direction::kWgrad, gpu(), true), expected, expected_bias);
  for (const sm90::wgrad::Plan& plan : without_slow(sm90::wgrad::make_plans(p_, gpu(), true),
                                                    choice(Direction::kWgrad).sm90_wgrad_plans)) {
    const Floats filter(filter_count(p_)), bias(p_.k);
    run(plan, filter, bias);
    filter.expect(expected, text_of(p_, plan));
    bias.expect(expected_bias, text_of(p_, plan) + " bias");
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, Sm90Shapes, ::testing::ValuesIn(load_shapes("reference")),
                         name_of_shape);
INSTANTIATE_TEST_SUITE_P(Layers, Sm90Shapes, ::testing::ValuesIn(load_shapes("layers")),
                         name_of_shape);
INSTANTIATE_TEST_SUITE_P(Networks, Sm90Shapes, ::testing::ValuesIn(load_shapes("networks")),
                         name_of_shape);

}  // namespace
}  // namespace haloconv::testing
