// Every plan of unpacked on its edge shapes: exact on small integers, every element written,
// nothing outside touched; NaN and infinity exactly where they belong; with a bias. Of dense
// tensors and of tensors that lie apart. Needs a Hopper GPU.
#include <gtest/gtest.h>

#include <vector>

#include "cpp_tests/families/unpacked/edge_shapes.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class UnpackedKernels : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    input_ = small_integers(input_count(problem_), 1);
    filter_ = small_integers(filter_count(problem_), 2);
  }

  // By every plan of the problem, or of one with other strides.
  void check(const Conv2dProblem& p, const Values& bias_values, const Values& expected) const {
    GatherCheck(p, Direction::kFprop, input_, filter_, bias_values)
        .run_plans("unpacked", gpu(), expected);
  }

  const Conv2dProblem problem_ = GetParam().problem;
  Values input_, filter_;  // small integers until a test changes them
};

TEST_P(UnpackedKernels, AreExactOnSmallIntegers) {
  check(problem_, {}, reference_fprop(problem_, input_, filter_, {}));
}

TEST_P(UnpackedKernels, AddABiasToTensorsThatLieApart) {
  Conv2dProblem apart = problem_;
  const int64_t pitch = apart.w + 8 - apart.w % 4, plane = apart.h * pitch + 4;
  apart.input = {.n = apart.c * plane + 8, .c = plane, .h = pitch, .w = 1};
  apart.output = rows_slice(apart.k, apart.p(), apart.q());
  apart.filter.n += 8;
  const Values bias = small_integers(apart.k, 3);
  check(apart, bias, reference_fprop(problem_, input_, filter_, bias));
}

TEST_P(UnpackedKernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(input_, p.n, p.c, p.h, p.w);
  make_some_not_finite(filter_, p.k, p.c, p.r, p.s);
  check(p, {}, reference_padded_fprop(p, input_, filter_, {}));
}

INSTANTIATE_TEST_SUITE_P(Edges, UnpackedKernels, ::testing::ValuesIn(unpacked_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
