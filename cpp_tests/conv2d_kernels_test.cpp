// Every kernel that the generic planner can return, on every edge shape, type and layout: exact on
// small integers, every element written, nothing outside touched. Needs a GPU, not torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <stdexcept>

#include "conv2d/conv2d.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

struct Operands {
  Values input, filter, bias, grad_output;
};

enum class Layout { kDense, kChannelsLast, kSpread };
constexpr Layout kLayouts[] = {Layout::kDense, Layout::kChannelsLast, Layout::kSpread};

// Spread: rows, planes and images lie apart.
void set_layout(Conv2dProblem& p, Layout layout) {
  p.set_dense_strides(layout == Layout::kChannelsLast);
  if (layout != Layout::kSpread) return;
  const auto spread = [](int64_t c, int64_t h, int64_t w) {
    const int64_t row = w + 3, plane = row * h + 5;
    return Strides{.n = plane * c + 7, .c = plane, .h = row, .w = 1};
  };
  p.input = spread(p.c, p.h, p.w);
  p.output = spread(p.k, p.p(), p.q());
}

// By the plan for `device`.
void check_kernel(const Conv2dProblem& p, const Operands& values, Direction direction,
                  Kernel kernel, const Device& device, const Values& expected,
                  const Values& expected_bias) {
  const Conv2dPlan plan = plan_generic(p, direction, device, true, kernel);
  if (std::isinf(plan.estimated_ms)) return;  // the kernel does not take it
  std::ostringstream what;
  what << p << " | " << plan;
  DeviceTensor input(positions(p.input, p.n, p.c, p.h, p.w), p.type);
  DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
  DeviceTensor output(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
  DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
  Buffer workspace(plan.workspace_bytes);
  switch (direction) {
    case Direction::kFprop:
      conv2d_fprop(p, plan, input.set(values.input).data(), filter.set(values.filter).data(),
                   bias.set(values.bias).data(), output.data(), workspace.data(), nullptr);
      output.expect(expected, what.str());
      break;
    case Direction::kDgrad:
      conv2d_dgrad(p, plan, output.set(values.grad_output).data(), filter.set(values.filter).data(),
                   input.data(), workspace.data(), nullptr);
      input.expect(expected, what.str());
      break;
    case Direction::kWgrad:
      conv2d_wgrad(p, plan, output.set(values.grad_output).data(), input.set(values.input).data(),
                   filter.data(), bias.data(), workspace.data(), nullptr);
      filter.expect(expected, what.str());
      bias.expect(expected_bias, what.str() + " bias");
      break;
  }
  EXPECT_TRUE(workspace.guards_are_whole()) << what.str() << ": wrote outside its workspace";
}

// What is fused; null where it is left out.
struct FusedValues {
  const Values *scale, *shift, *residual;
  Activation activation;
};

void check_fused(const Conv2dProblem& p, const Operands& values, Kernel kernel,
                 const FusedValues& fused, const Values& expected) {
  const Conv2dPlan plan = plan_generic(p, Direction::kFprop, gpu(), false, kernel);
  if (std::isinf(plan.estimated_ms)) return;
  ASSERT_TRUE(takes_fusion(plan));
  std::ostringstream what;
  what << p << " | " << plan << " | activation " << static_cast<int>(fused.activation.kind);
  const auto per_channel = positions({1, 1, 1, 1}, p.k, 1, 1, 1);
  const auto output_at = positions(p.output, p.n, p.k, p.p(), p.q());
  DeviceTensor input(positions(p.input, p.n, p.c, p.h, p.w), p.type);
  DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
  DeviceTensor bias(per_channel, p.type), scale(per_channel, p.type), shift(per_channel, p.type);
  DeviceTensor residual(output_at, p.type), output(output_at, p.type);
  Buffer workspace(plan.workspace_bytes);
  const auto given = [](DeviceTensor& tensor, const Values* from) -> const void* {
    return from == nullptr ? nullptr : tensor.set(*from).data();
  };
  const Fusion fusion = {.scale = given(scale, fused.scale),
                         .shift = given(shift, fused.shift),
                         .residual = given(residual, fused.residual),
                         .activation = fused.activation};
  conv2d_fused(p, plan, input.set(values.input).data(), filter.set(values.filter).data(),
               bias.set(values.bias).data(), fusion, output.data(), workspace.data(), nullptr);
  output.expect(expected, what.str());
  if (fused.residual != nullptr) residual.expect(*fused.residual, what.str() + ": the residual");
  EXPECT_TRUE(workspace.guards_are_whole()) << what.str() << ": wrote outside its workspace";
}

struct Case {
  Shape shape;
  Kernel kernel;
};

std::ostream& operator<<(std::ostream& os, const Case& c) {
  return os << c.kernel << " on " << c.shape;
}

class Kernels : public ::testing::TestWithParam<Case> {};
class FusedKernels : public ::testing::TestWithParam<Case> {};

TEST_P(Kernels, AreExactOnSmallIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  Conv2dProblem p = GetParam().shape.problem;
  const Kernel kernel = GetParam().kernel;
  const Operands values = {small_integers(input_count(p), 1), small_integers(filter_count(p), 2),
                           small_integers(p.k, 3), small_integers(output_count(p), 4)};
  const Values output = reference_fprop(p, values.input, values.filter, values.bias);
  const Values grad_input = reference_dgrad(p, values.grad_output, values.filter);
  const Values grad_filter = reference_wgrad(p, values.grad_output, values.input);
  const Values grad_bias = reference_bias_grad(p, values.grad_output);
  // On a small GPU few blocks share the pixels of wgrad: each has several tiles.
  const Device small = {.compute_capability = gpu().compute_capability, .multiprocessors = 1};
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
    p.type = type;
    for (const Layout layout : kLayouts) {
      set_layout(p, layout);
      check_kernel(p, values, Direction::kFprop, kernel, gpu(), output, {});
      check_kernel(p, values, Direction::kDgrad, kernel, gpu(), grad_input, {});
      check_kernel(p, values, Direction::kWgrad, kernel, gpu(), grad_filter, grad_bias);
      check_kernel(p, values, Direction::kWgrad, kernel, small, grad_filter, grad_bias);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(FusedKernels, AreExactOnSmallIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  Conv2dProblem p = GetParam().shape.problem;
  const Kernel kernel = GetParam().kernel;
  const Operands values = {small_integers(input_count(p), 1),
                           small_integers(filter_count(p), 2),
                           small_integers(p.k, 3),
                           {}};
  const Values scale = small_integers(p.k, 5), shift = small_integers(p.k, 6);
  const Values residual = small_integers(output_count(p), 7);
  const Values plain = reference_fprop(p, values.input, values.filter, values.bias);
  const FusedValues fusions[] = {
      {&scale, &shift, &residual, {ActivationKind::kLeakyRelu, 0.25}},
      {&scale, nullptr, nullptr, {ActivationKind::kNone}},
      {nullptr, &shift, nullptr, {ActivationKind::kClamp, -5, 6}},
      {nullptr, nullptr, &residual, {ActivationKind::kRelu}},
  };
  for (const FusedValues& fused : fusions) {
    const auto given = [](const Values* some) { return some == nullptr ? Values() : *some; };
    const Values expected = reference_fused(p, plain, given(fused.scale), given(fused.shift),
                                            given(fused.residual), fused.activation);
    for (const DataType type :
         {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
      p.type = type;
      for (const Layout layout : kLayouts) {
        set_layout(p, layout);
        check_fused(p, values, kernel, fused, expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(KernelsOnCpu, GradientsTakeNoFusion) {
  const Conv2dProblem p = parse_shape("some n1c1h4w4 k1r1s1  # any").problem;
  const Device device = {.compute_capability = 90, .multiprocessors = 132};
  EXPECT_TRUE(takes_fusion(plan_generic(p, Direction::kFprop, device)));
  const Conv2dPlan plan = plan_generic(p, Direction::kDgrad, device);
  EXPECT_FALSE(takes_fusion(plan));
  const Fusion fusion = {.activation = {ActivationKind::kRelu}};
  EXPECT_THROW(conv2d_fused(p, plan, nullptr, nullptr, nullptr, fusion, nullptr, nullptr, nullptr),
               std::logic_error);
}

TEST(KernelsOnCpu, ADepthwisePlanForFloat64IsAnError) {
  Conv2dProblem p = parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem;
  p.type = DataType::kFloat64;
  for (const Direction direction : {Direction::kFprop, Direction::kWgrad}) {
    Conv2dPlan plan = plan_generic(p, direction, Device{}, false, Kernel::kDepthwise);
    EXPECT_TRUE(std::isinf(plan.estimated_ms));
    if (direction == Direction::kFprop) {
      EXPECT_THROW(conv2d_fprop(p, plan, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
                   std::logic_error);
    } else {
      EXPECT_THROW(conv2d_wgrad(p, plan, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
                   std::logic_error);
    }
  }
}

// All kernels on all shapes, but the depthwise ones on those that they take in one of the
// directions and layouts.
std::vector<Case> cases(std::span<const Direction> directions) {
  std::vector<Case> cases;
  for (const Shape& shape : load_shapes("edges")) {
    for (const Kernel kernel : kAllKernels) {
      const auto takes = [&](Direction direction) {
        Conv2dProblem p = shape.problem;
        p.set_dense_strides(kernel == Kernel::kDepthwiseNhwc);
        return !std::isinf(plan_generic(p, direction, Device{}, false, kernel).estimated_ms);
      };
      if (std::any_of(directions.begin(), directions.end(), takes))
        cases.push_back({shape, kernel});
    }
  }
  return cases;
}

constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad, Direction::kWgrad};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  std::ostringstream name;
  name << info.param.shape.name << "_by_" << info.param.kernel;
  return name.str();
}

INSTANTIATE_TEST_SUITE_P(Edges, Kernels, ::testing::ValuesIn(cases(kDirections)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Edges, FusedKernels,
                         ::testing::ValuesIn(cases(std::span(kDirections).first(1))), name_of_case);

}  // namespace
}  // namespace haloconv::testing
