// What is not finite, by the depthwise kernels along lines: what lies beside a line must not make
// NaN of it. Needs a GPU; conv2d_kernels_test.cpp has the sums of integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

std::vector<FamilyPlan> lines_of(const Conv2dProblem& p, Direction direction, const Chip& chip) {
  std::vector<FamilyPlan> lines;
  for (const FamilyPlan& of :
       plans_of("depthwise", {.problem = p, .direction = direction, .chip = chip})) {
    if (of.says("depthwise_lines")) lines.push_back(of);
  }
  return lines;
}

class DepthwiseLinesKernels : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  }

  // By every plan and type.
  void check(Direction direction, const Values& output, const Values& input, const Values& filter) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
      Conv2dProblem p = problem_;
      p.type = type;
      for (const FamilyPlan& of : lines_of(p, direction, gpu())) {
        DeviceTensor in(positions(p.input, p.n, p.c, p.h, p.w), type);
        DeviceTensor weights(positions(p.filter, p.k, p.group_c(), p.r, p.s), type);
        DeviceTensor out(positions(p.output, p.n, p.k, p.p(), p.q()), type);
        Buffer workspace(of.plan->workspace_bytes);
        Operands operands{.input = in.data(), .filter = weights.data(), .output = out.data()};
        operands.workspace = workspace.data();
        const bool wgrad = direction == Direction::kWgrad;
        in.set(input);
        wgrad ? out.set(output) : weights.set(filter);
        operands.result = wgrad ? weights.data() : out.data();
        of.launch(operands);
        wgrad ? weights.expect(filter, text_of(p, of)) : out.expect(output, text_of(p, of));
        if (HasFatalFailure()) return;
      }
    }
  }
  void check_fprop() {
    check(Direction::kFprop, reference_padded_fprop(problem_, input_, filter_, {}), input_,
          filter_);
  }
  void check_wgrad() {
    check(Direction::kWgrad, grads_, input_, reference_padded_wgrad(problem_, grads_, input_));
  }

  const Conv2dProblem problem_ = GetParam().problem;
  Values input_ = small_integers(input_count(problem_), 1);
  Values filter_ = small_integers(filter_count(problem_), 2);
  Values grads_ = small_integers(output_count(problem_), 3);
};

TEST_P(DepthwiseLinesKernels, LetInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check_fprop();
  check_wgrad();
}

TEST_P(DepthwiseLinesKernels, MakeNanOfNan) {
  std::fill(input_.begin(), input_.end(), NAN);
  check_fprop();
  check_wgrad();
}

TEST_P(DepthwiseLinesKernels, MultiplyPaddingByInfiniteWeights) {
  make_some_not_finite(filter_, problem_.k, problem_.group_c(), problem_.r, problem_.s);
  check_fprop();
}

TEST_P(DepthwiseLinesKernels, MultiplyPaddingByInfiniteGradients) {
  make_some_not_finite(grads_, problem_.n, problem_.k, problem_.p(), problem_.q());
  check_wgrad();
}

std::vector<Shape> shapes_with_lines() {
  std::vector<Shape> shapes;
  for (const Shape& shape : load_shapes("edges")) {
    if (!lines_of(shape.problem, Direction::kFprop, h200()).empty()) shapes.push_back(shape);
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Edges, DepthwiseLinesKernels, ::testing::ValuesIn(shapes_with_lines()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace haloconv::testing
