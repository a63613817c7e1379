// Every plan of all_phases on its edge shapes: exact on small integers, every element written,
// nothing outside touched; NaN and infinity exactly where they belong; with an epilogue. Of rows
// and channels innermost, dense and apart. Needs a Hopper GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpp_tests/dgrad_fixture.h"
#include "cpp_tests/families/all_phases/edge_shapes.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class AllPhasesKernels : public HopperDgrad {
 protected:
  const char* family() const override { return "all_phases"; }

  std::vector<Conv2dProblem> layouts() const override {
    Conv2dProblem rows = problem_, channels = problem_;
    rows.set_dense_strides(false);
    channels.set_dense_strides(true);
    Conv2dProblem rows_apart = rows, channels_apart = channels;
    rows_apart.input = rows_slice(rows.c, rows.h, rows.w);
    rows_apart.output = rows_slice(rows.k, rows.p(), rows.q());
    channels_apart.input = channels_last_slice(rows.c, rows.h, rows.w);
    channels_apart.output = channels_last_slice(rows.k, rows.p(), rows.q());
    return {rows, channels, rows_apart, channels_apart};
  }
};

TEST_P(AllPhasesKernels, AreExactOnSmallIntegers) { check_sums(); }

TEST_P(AllPhasesKernels, ComputeAnEpilogue) { check_epilogue(); }

TEST_P(AllPhasesKernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  check_sums();
}

TEST_P(AllPhasesKernels, MultiplyInfiniteWeightsWithTheSourceAlone) {
  for (size_t i = 3; i < filter_.size(); i += 11) filter_[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  check_sums();
}

// Units of channels that have one of them, and sums that have several.
TEST_P(AllPhasesKernels, MultiplyAFewInfiniteWeightsWithTheSourceAlone) {
  filter_.front() = INFINITY;
  filter_[filter_.size() / 2] = -INFINITY;
  check_sums();
  if (HasFatalFailure()) return;
  filter_.back() = NAN;
  filter_[filter_.size() / 3] = INFINITY;
  check_epilogue();
}

TEST_P(AllPhasesKernels, MultiplyInfiniteWeightsWithInfinities) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  filter_.front() = -INFINITY;
  filter_[filter_.size() / 2] = INFINITY;
  check_sums();
  if (HasFatalFailure()) return;
  // Several of a unit in some, one in others.
  for (size_t i = 3; i < filter_.size(); i += 37) filter_[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  check_epilogue();
}

TEST_P(AllPhasesKernels, TellInfinitiesFromNan) {
  // Of one sign but for some, so that among the sums are infinities of both signs and NaN.
  std::fill(source_.begin(), source_.end(), INFINITY);
  for (size_t i = 5; i < source_.size(); i += 97) source_[i] = -INFINITY;
  for (size_t i = 3; i < source_.size(); i += 2) source_[i] = 1;
  for (double& weight : filter_) weight = std::abs(weight) + 1;
  check_sums();
}

TEST_P(AllPhasesKernels, ComputeAnEpilogueNearInfinities) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  check_epilogue();
}

TEST_P(AllPhasesKernels, MakeNanOfNanAlone) {
  std::fill(source_.begin(), source_.end(), NAN);
  check_sums();
}

INSTANTIATE_TEST_SUITE_P(Edges, AllPhasesKernels, ::testing::ValuesIn(all_phases_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
