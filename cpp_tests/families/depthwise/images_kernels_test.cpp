// The depthwise kernel of weight gradients by eights of images: exact sums, with and without a bias
// gradient, and what is not finite, which must not reach taps that do not meet it. Needs a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cpp_tests/families/depthwise/channels_last.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

std::vector<FamilyPlan> images_of(const Conv2dProblem& p, const Chip& chip, bool with_bias) {
  std::vector<FamilyPlan> plans;
  for (const FamilyPlan& of : plans_of(
           "depthwise",
           {.problem = p, .direction = Direction::kWgrad, .chip = chip, .with_bias = with_bias})) {
    if (of.says("depthwise_images")) plans.push_back(of);
  }
  return plans;
}

class DepthwiseImagesKernels : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  }

  // By every plan and type.
  void check(const Values& grad_output, const Values& input) {
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
      Conv2dProblem p = channels_last(problem_);
      p.type = type;
      const WgradCheck check(p, grad_output, input);
      for (const bool with_bias : {false, true}) {
        for (const FamilyPlan& of : images_of(p, gpu(), with_bias)) check.run(of, with_bias);
      }
      if (HasFatalFailure()) return;
    }
  }

  const Conv2dProblem problem_ = GetParam().problem;
  Values input_ = small_integers(input_count(problem_), 1);
  Values grad_output_ = small_integers(output_count(problem_), 2);
};

TEST_P(DepthwiseImagesKernels, SumIntegers) { check(grad_output_, input_); }

TEST_P(DepthwiseImagesKernels, LetInfinitiesReachTheirTapsAlone) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(input_, p.n, p.c, p.h, p.w);
  check(grad_output_, input_);
  make_some_not_finite(grad_output_, p.n, p.k, p.p(), p.q());
  check(grad_output_, input_);
  check(grad_output_, small_integers(input_count(p), 1));
}

// All of one sign: NaN comes of padding and of zeros alone.
TEST_P(DepthwiseImagesKernels, TellInfinitiesFromNan) {
  std::fill(input_.begin(), input_.end(), -INFINITY);
  check(grad_output_, input_);
  for (double& grad : grad_output_) grad = std::abs(grad) + 1;
  check(grad_output_, input_);
}

std::vector<Shape> shapes_by_images() {
  std::vector<Shape> shapes;
  for (const char* file : {"edges", "layers"}) {
    for (const Shape& shape : load_shapes(file)) {
      Conv2dProblem p = channels_last(shape.problem);
      p.type = DataType::kBFloat16;
      constexpr int64_t kMostElements = 4'000'000;  // sums of small integers stay exact
      if (output_count(p) <= kMostElements && !images_of(p, h200(), true).empty()) {
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Edges, DepthwiseImagesKernels, ::testing::ValuesIn(shapes_by_images()),
                         name_of_shape);

}  // namespace
}  // namespace haloconv::testing
