// Every plan of row_strips on its edge shapes: exact on small integers, every element written,
// nothing outside touched; NaN and infinity exactly where they belong; with a bias, forward too. Of
// dense tensors and of tensors that lie apart. Needs a Hopper GPU.
#include <gtest/gtest.h>

#include <vector>

#include "cpp_tests/dgrad_fixture.h"
#include "cpp_tests/families/row_strips/edge_shapes.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class RowStripsKernels : public HopperDgrad {
 protected:
  const char* family() const override { return "row_strips"; }

  std::vector<Conv2dProblem> layouts() const override {
    Conv2dProblem apart = problem_;
    apart.input = rows_slice(apart.c, apart.h, apart.w);
    const int64_t pitch = apart.q() + 8, plane = apart.p() * pitch + 16;
    apart.output = {.n = apart.k * plane + 8, .c = plane, .h = pitch, .w = 1};
    return {problem_, apart};
  }
};

TEST_P(RowStripsKernels, AreExactOnSmallIntegers) { check_sums(); }

TEST_P(RowStripsKernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  check_sums();
}

// As a forward pass of as many channels each way, with a bias.
TEST_P(RowStripsKernels, AreExactForward) {
  Conv2dProblem p = problem_;
  std::swap(p.c, p.k);
  p.pad_left = p.pad_right = 4 * p.dilation_w;
  p.w = p.q() / 8 * 8 + 8;
  p.set_dense_strides(false);
  const Values source = small_integers(input_count(p), 1),
               filter = small_integers(filter_count(p), 2);
  const Values bias = small_integers(p.k, 3);
  const Values expected = reference_fprop(p, source, filter, bias);
  GatherCheck(p, Direction::kFprop, source, filter, bias).run_plans(family(), gpu(), expected);
}

INSTANTIATE_TEST_SUITE_P(Edges, RowStripsKernels,
                         ::testing::ValuesIn(row_strips_shapes(kSm90Types)), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
