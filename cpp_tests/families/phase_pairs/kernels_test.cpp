// Every plan of phase_pairs on its edge shapes: exact on small integers, every element written,
// nothing outside touched; NaN and infinity exactly where they belong; with an epilogue. Of dense
// tensors and of tensors that lie apart. Needs a Hopper GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpp_tests/dgrad_fixture.h"
#include "cpp_tests/families/phase_pairs/edge_shapes.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class PhasePairsKernels : public HopperDgrad {
 protected:
  const char* family() const override { return "phase_pairs"; }

  std::vector<Conv2dProblem> layouts() const override {
    Conv2dProblem apart = problem_;
    apart.input = rows_slice(apart.c, apart.h, apart.w);
    const int64_t pitch = apart.q() + 4, plane = apart.p() * pitch + 8;
    apart.output = {.n = apart.k * plane + 4, .c = plane, .h = pitch, .w = 1};
    return {problem_, apart};
  }
};

TEST_P(PhasePairsKernels, AreExactOnSmallIntegers) { check_sums(); }

TEST_P(PhasePairsKernels, ComputeAnEpilogue) { check_epilogue(); }

TEST_P(PhasePairsKernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  check_sums();
}

TEST_P(PhasePairsKernels, MakeNanOfNanAlone) {
  std::fill(source_.begin(), source_.end(), NAN);
  check_sums();
}

INSTANTIATE_TEST_SUITE_P(Edges, PhasePairsKernels, ::testing::ValuesIn(phase_pairs_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
