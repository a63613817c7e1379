// The plans of every family, on every edge shape, type and layout: exact on
// small integers, every element written, nothing outside touched. Needs a GPU, not torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <stdexcept>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

struct Tensors {
  Values input, filter, bias, grad_output;
};

enum class Layout { kDense, kChannelsLast, kSpread };
constexpr Layout kLayouts[] = {Layout::kDense, Layout::kChannelsLast, Layout::kSpread};

// Spread: rows, planes and images lie apart.
void set_layout(Conv2dProblem& p, Layout layout) {
  p.set_dense_strides(layout == Layout::kChannelsLast);
  if (layout != Layout::kSpread) return;
  p.input = rows_slice(p.c, p.h, p.w);
  p.output = rows_slice(p.k, p.p(), p.q());
}

// Those that are tested: all of a family for any chip. The others have hundreds, which their own
// tests run; here they run those that would be timed.
std::vector<FamilyPlan> tested_plans(const Family& family, const Request& request) {
  return family.group == "generic" ? plans_of(family.name, request)
                                   : timed_plans_of(family.name, request);
}

// By the family's plans for `chip`. `expected_beside` is the bias's gradient, or forward the result
// of plans that take no bias.
void check_plans(const Conv2dProblem& p, const Tensors& values, Direction direction,
                 const Family& family, const Chip& chip, const Values& expected,
                 const Values& expected_beside) {
  for (const FamilyPlan& of : tested_plans(
           family, {.problem = p, .direction = direction, .chip = chip, .with_bias = true})) {
    const std::string what = text_of(p, of);
    DeviceTensor input(positions(p.input, p.n, p.c, p.h, p.w), p.type);
    DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
    DeviceTensor output(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
    DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
    Buffer workspace(of.plan->workspace_bytes);
    Operands operands{.input = input.data(), .filter = filter.data(), .output = output.data()};
    operands.workspace = workspace.data();
    if (direction != Direction::kDgrad) input.set(values.input);
    if (direction != Direction::kWgrad) filter.set(values.filter);
    if (direction != Direction::kFprop) output.set(values.grad_output);
    switch (direction) {
      case Direction::kFprop:
        if (of.plan->takes_bias) operands.bias = bias.set(values.bias).data();
        operands.result = output.data();
        of.launch(operands);
        output.expect(of.plan->takes_bias ? expected : expected_beside, what);
        break;
      case Direction::kDgrad:
        operands.result = input.data();
        of.launch(operands);
        input.expect(expected, what);
        break;
      case Direction::kWgrad:
        operands.result = filter.data();
        operands.grad_bias = bias.data();
        of.launch(operands);
        filter.expect(expected, what);
        bias.expect(expected_beside, what + " bias");
        break;
    }
    EXPECT_TRUE(workspace.guards_are_whole()) << what << ": wrote outside its workspace";
  }
}

// What is fused; empty where it is left out.
struct FusedValues {
  Values scale, shift, residual;
  Activation activation;
};

// Of fprop, or of dgrad with a bias for each channel of the input's gradient.
void check_fused(const Conv2dProblem& p, const Tensors& values, Direction direction,
                 const Family& family, const FusedValues& fused, const Values& expected) {
  const bool fprop = direction == Direction::kFprop;
  const auto input_at = positions(p.input, p.n, p.c, p.h, p.w);
  const auto output_at = positions(p.output, p.n, p.k, p.p(), p.q());
  const auto& result_at = fprop ? output_at : input_at;
  DeviceTensor source(fprop ? input_at : output_at, p.type);
  DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
  DeviceTensor bias(positions({1, 1, 1, 1}, result_channels(p, direction), 1, 1, 1), p.type);
  const FusedOperands operands(p, direction, fused.scale, fused.shift, fused.residual,
                               fused.activation);
  source.set(fprop ? values.input : values.grad_output);
  filter.set(values.filter);
  bias.set(values.bias);
  for (const FamilyPlan& of :
       tested_plans(family, {.problem = p, .direction = direction, .chip = gpu()})) {
    if (!of.plan->takes_fusion) {
      ASSERT_NE(family.group, "generic") << of;
      continue;
    }
    std::ostringstream what;
    what << p << " | " << of << " | activation " << static_cast<int>(fused.activation.kind);
    DeviceTensor result(result_at, p.type);
    Buffer workspace(of.plan->workspace_bytes);
    of.launch({.input = fprop ? source.data() : nullptr,
               .filter = filter.data(),
               .output = fprop ? nullptr : source.data(),
               .result = result.data(),
               .bias = bias.data(),
               .fusion = operands.fusion(),
               .workspace = workspace.data()});
    result.expect(expected, what.str());
    operands.expect_residual(what.str());
    EXPECT_TRUE(workspace.guards_are_whole()) << what.str() << ": wrote outside its workspace";
  }
}

struct Case {
  Shape shape;
  const Family* family;
};

std::ostream& operator<<(std::ostream& os, const Case& c) {
  return os << c.family->name << " on " << c.shape;
}

class Kernels : public ::testing::TestWithParam<Case> {};
class FusedKernels : public ::testing::TestWithParam<Case> {};

TEST_P(Kernels, AreExactOnSmallIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  Conv2dProblem p = GetParam().shape.problem;
  const Family& family = *GetParam().family;
  const Tensors values = {small_integers(input_count(p), 1), small_integers(filter_count(p), 2),
                          small_integers(p.k, 3), small_integers(output_count(p), 4)};
  const Values output = reference_fprop(p, values.input, values.filter, values.bias);
  const Values output_without_bias = reference_fprop(p, values.input, values.filter, {});
  const Values grad_input = reference_dgrad(p, values.grad_output, values.filter);
  const Values grad_filter = reference_wgrad(p, values.grad_output, values.input);
  const Values grad_bias = reference_bias_grad(p, values.grad_output);
  // On a small GPU few blocks share the pixels of wgrad: each has several tiles.
  Chip small = gpu();
  small.multiprocessors = 1;
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
    p.type = type;
    for (const Layout layout : kLayouts) {
      set_layout(p, layout);
      check_plans(p, values, Direction::kFprop, family, gpu(), output, output_without_bias);
      check_plans(p, values, Direction::kDgrad, family, gpu(), grad_input, {});
      check_plans(p, values, Direction::kWgrad, family, gpu(), grad_filter, grad_bias);
      check_plans(p, values, Direction::kWgrad, family, small, grad_filter, grad_bias);
      if (HasFatalFailure()) return;
    }
  }
}

void check_fusions(Conv2dProblem p, Direction direction, const Family& family) {
  const bool fprop = direction == Direction::kFprop;
  const int64_t channels = fprop ? p.k : p.c;
  const Tensors values = {small_integers(input_count(p), 1), small_integers(filter_count(p), 2),
                          small_integers(channels, 3), small_integers(output_count(p), 4)};
  const Values scale = small_integers(channels, 5), shift = small_integers(channels, 6);
  const Values residual = small_integers(fprop ? output_count(p) : input_count(p), 7);
  const Values plain =
      fprop ? reference_fprop(p, values.input, values.filter, values.bias)
            : reference_dgrad_with_bias(p, values.grad_output, values.filter, values.bias);
  const FusedValues fusions[] = {
      {scale, shift, residual, {ActivationKind::kLeakyRelu, 0.25}},
      {scale, {}, {}, {ActivationKind::kNone}},
      {{}, shift, {}, {ActivationKind::kClamp, -5, 6}},
      {{}, {}, residual, {ActivationKind::kRelu}},
  };
  for (const FusedValues& fused : fusions) {
    const Values expected = reference_fused(p, direction, plain, fused.scale, fused.shift,
                                            fused.residual, fused.activation);
    for (const DataType type :
         {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
      p.type = type;
      for (const Layout layout : kLayouts) {
        set_layout(p, layout);
        check_fused(p, values, direction, family, fused, expected);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(FusedKernels, AreExactOnSmallIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    check_fusions(GetParam().shape.problem, direction, *GetParam().family);
    if (HasFatalFailure()) return;
  }
}

TEST(KernelsOnCpu, AFamilyRunsNoPlanOfAnother) {
  const Request request = {.problem = parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem};
  for (const FamilyPlan& generic : plans_of("generic", request)) {
    for (const Family* other : families()) {
      if (other == generic.family) continue;
      EXPECT_THROW(other->launch(*generic.plan, {}, nullptr), std::logic_error) << other->name;
    }
  }
}

// The shapes for a family's kernels: those for one chip, of which some want channels in multiples
// of 8, take the shapes that have these, those for any chip the others, and those of sm80 both.
std::vector<Shape> shapes_for(const Family& family) {
  std::vector<Shape> shapes;
  if (family.group != "sm90") shapes = load_shapes("edges");
  if (family.group == "generic") return shapes;
  for (const Shape& shape : load_shapes("eights")) shapes.push_back(shape);
  return shapes;
}

// Those that it takes in one of the directions and layouts.
std::vector<Case> cases(std::span<const Direction> directions) {
  std::vector<Case> cases;
  for (const Family* family : families()) {
    for (const Shape& shape : shapes_for(*family)) {
      const auto takes = [&](Direction direction) {
        for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
          for (const bool channels_last : {false, true}) {
            Conv2dProblem p = shape.problem;
            p.type = type;
            p.set_dense_strides(channels_last);
            if (!family->ask({.problem = p, .direction = direction}).plans.empty()) return true;
          }
        }
        return false;
      };
      if (std::any_of(directions.begin(), directions.end(), takes)) {
        cases.push_back({shape, family});
      }
    }
  }
  return cases;
}

constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad, Direction::kWgrad};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  std::ostringstream name;
  name << info.param.shape.name << "_by_" << info.param.family->name;
  return name.str();
}

INSTANTIATE_TEST_SUITE_P(Edges, Kernels, ::testing::ValuesIn(cases(kDirections)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Edges, FusedKernels,
                         ::testing::ValuesIn(cases(std::span(kDirections).first(1))), name_of_case);

}  // namespace
}  // namespace haloconv::testing
