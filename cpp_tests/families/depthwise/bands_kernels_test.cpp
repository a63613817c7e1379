// What is not finite, by the depthwise kernel of band matrices: their zeros must not make NaN of
// it. Needs a GPU; conv2d_kernels_test.cpp has the sums of integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/families/depthwise/channels_last.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

std::vector<FamilyPlan> bands_of(const Conv2dProblem& p, Direction direction, const Chip& chip) {
  std::vector<FamilyPlan> bands;
  for (const FamilyPlan& of :
       plans_of("depthwise", {.problem = p, .direction = direction, .chip = chip})) {
    if (of.says("depthwise_bands")) bands.push_back(of);
  }
  return bands;
}

class DepthwiseBandsKernels : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  }

  // By every plan and type, alone and with all that can be fused.
  void check(const Values& input, const Values& filter, const Values& expected) {
    const Values scale = small_integers(problem_.k, 5), shift = small_integers(problem_.k, 6);
    const Values residual = small_integers(output_count(problem_), 7);
    const Activation activation = {ActivationKind::kLeakyRelu, 0.25};
    const Values fused =
        reference_fused(problem_, Direction::kFprop, expected, scale, shift, residual, activation);
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
      Conv2dProblem p = channels_last(problem_);
      p.type = type;
      for (const FamilyPlan& of : bands_of(p, Direction::kFprop, gpu())) {
        DeviceTensor in(positions(p.input, p.n, p.c, p.h, p.w), type);
        DeviceTensor weights(positions(p.filter, p.k, p.group_c(), p.r, p.s), type);
        DeviceTensor out(positions(p.output, p.n, p.k, p.p(), p.q()), type);
        in.set(input);
        weights.set(filter);
        of.launch({.input = in.data(), .filter = weights.data(), .result = out.data()});
        out.expect(expected, text_of(p, of));
        DeviceTensor fused_out(positions(p.output, p.n, p.k, p.p(), p.q()), type);
        const FusedOperands operands(p, Direction::kFprop, scale, shift, residual, activation);
        of.launch({.input = in.data(),
                   .filter = weights.data(),
                   .result = fused_out.data(),
                   .fusion = operands.fusion()});
        fused_out.expect(fused, text_of(p, of) + ", fused");
        if (HasFatalFailure()) return;
      }
    }
  }

  const Conv2dProblem problem_ = GetParam().problem;
  Values input_ = small_integers(input_count(problem_), 1);
  Values filter_ = small_integers(filter_count(problem_), 2);
};

TEST_P(DepthwiseBandsKernels, LetInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
}

TEST_P(DepthwiseBandsKernels, MakeNanOfNan) {
  std::fill(input_.begin(), input_.end(), NAN);
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
}

TEST_P(DepthwiseBandsKernels, TellInfinitiesFromNan) {
  // All of one sign, so that zero and negative weights alone make NaN of it.
  std::fill(input_.begin(), input_.end(), -INFINITY);
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
  for (double& weight : filter_) weight = std::abs(weight) + 1;
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
}

// A third of them, beside small integers.
TEST_P(DepthwiseBandsKernels, TakeAnyMixture) {
  const Values kinds = small_integers(input_count(problem_), 5);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == 1) input_[i] = INFINITY;
    if (kinds[i] == -1) input_[i] = -INFINITY;
    if (kinds[i] == 2 && i % 16 == 0) input_[i] = NAN;
  }
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
  // Sparse ones, which most rows of a block are without.
  input_ = small_integers(input_count(problem_), 1);
  for (size_t i = 7; i < kinds.size(); i += 211) input_[i] = kinds[i] < 0 ? -INFINITY : INFINITY;
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
}

// Rows of many, and beside them single ones, so that outputs meet some of each.
TEST_P(DepthwiseBandsKernels, TakeFewBesideMany) {
  for (size_t i = 0; i < input_.size(); ++i) {
    const auto line = static_cast<int64_t>(i) / problem_.w;
    const int64_t row = line % problem_.h, plane = line / problem_.h;
    if (row % 5 == 1 && plane % 3 == 0) input_[i] = plane % 2 == 0 ? INFINITY : -INFINITY;
    if (i % 89 == 3) input_[i] = -INFINITY;
  }
  check(input_, filter_, reference_fprop(problem_, input_, filter_, {}));
}

// A row that is not finite, far from the next.
TEST_P(DepthwiseBandsKernels, TakeSingleRows) {
  for (const int64_t row : {int64_t{0}, problem_.h / 2, problem_.h - 1}) {
    Values input = input_;
    for (int64_t plane = 0; plane < problem_.n * problem_.c; plane += 3) {
      input.at((plane * problem_.h + row) * problem_.w + plane % problem_.w) =
          plane % 2 == 0 ? INFINITY : -INFINITY;
    }
    check(input, filter_, reference_fprop(problem_, input, filter_, {}));
  }
}

TEST_P(DepthwiseBandsKernels, MultiplyPaddingByInfiniteWeights) {
  make_some_not_finite(filter_, problem_.k, problem_.group_c(), problem_.r, problem_.s);
  check(input_, filter_, reference_padded_fprop(problem_, input_, filter_, {}));
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check(input_, filter_, reference_padded_fprop(problem_, input_, filter_, {}));
  std::fill(input_.begin(), input_.end(), INFINITY);
  check(input_, filter_, reference_padded_fprop(problem_, input_, filter_, {}));
}

std::vector<Shape> shapes_with_bands() {
  std::vector<Shape> shapes;
  for (const Shape& shape : load_shapes("edges")) {
    Conv2dProblem p = channels_last(shape.problem);
    p.type = DataType::kBFloat16;
    if (!bands_of(p, Direction::kFprop, h200()).empty()) shapes.push_back(shape);
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Edges, DepthwiseBandsKernels, ::testing::ValuesIn(shapes_with_bands()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace haloconv::testing
