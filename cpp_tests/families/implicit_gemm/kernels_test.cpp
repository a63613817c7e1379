// fprop and dgrad as products of matrices: exact on small integers with the shared memory of a
// smaller chip, in slices of tensors, with groups, with rows innermost, and near infinities. Needs
// a GPU of compute capability 8.0 or later, not torch.
#include <gtest/gtest.h>

#include <limits>

#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

class ImplicitGemm : public Sm80ChannelsLast {
 protected:
  // By every plan for `chip`.
  void check(const Conv2dProblem& p, Direction direction, const Chip& chip, const Values& source,
             const Values& filter) const {
    const bool fprop = direction == Direction::kFprop;
    const Values expected =
        fprop ? reference_fprop(p, source, filter, {}) : reference_dgrad(p, source, filter);
    const auto input_at = positions(p.input, p.n, p.c, p.h, p.w);
    const auto output_at = positions(p.output, p.n, p.k, p.p(), p.q());
    DeviceTensor from(fprop ? input_at : output_at, p.type);
    DeviceTensor weights(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
    from.set(source);
    weights.set(filter);
    const std::vector<FamilyPlan> plans =
        plans_of("implicit_gemm", {.problem = p, .direction = direction, .chip = chip});
    EXPECT_FALSE(plans.empty()) << p;
    for (const FamilyPlan& of : plans) {
      const std::string what = text_of(p, of);
      DeviceTensor result(fprop ? output_at : input_at, p.type);
      Buffer workspace(of.plan->workspace_bytes);
      of.launch({.input = from.data(),
                 .filter = weights.data(),
                 .output = from.data(),
                 .result = result.data(),
                 .workspace = workspace.data()});
      result.expect(expected, what);
      EXPECT_TRUE(workspace.guards_are_whole()) << what << ": wrote outside its workspace";
      if (HasFailure()) return;
    }
  }

  void check_integers(const Conv2dProblem& p, const Chip& chip) const {
    const Values filter = small_integers(filter_count(p), 1);
    check(p, Direction::kFprop, chip, small_integers(input_count(p), 2), filter);
    check(p, Direction::kDgrad, chip, small_integers(output_count(p), 3), filter);
  }
};

// As an RTX 3090's or 4090's: rings of fewer stages.
TEST_P(ImplicitGemm, IsExactWithTheSharedMemoryOfASmallerChip) {
  for (const int64_t kilobytes : {99, 163}) {
    check_integers(problem_, with_shared_memory(kilobytes));
  }
}

TEST_P(ImplicitGemm, TakesSlices) {
  Conv2dProblem p = problem_;
  p.input = channels_last_slice(p.c, p.h, p.w);
  p.output = channels_last_slice(p.k, p.p(), p.q());
  p.filter = channels_last_slice(p.c, p.r, p.s);
  check_integers(p, gpu());
}

TEST_P(ImplicitGemm, TakesGroups) { check_integers(in_groups(), gpu()); }

// Whose rows begin at multiples of 16, 8, 4 or 2 bytes, as wide as they are.
TEST_P(ImplicitGemm, TakesRowsInnermost) {
  Conv2dProblem p = problem_;
  p.set_dense_strides(false);
  check_integers(p, gpu());
  check_integers(p, with_shared_memory(99));
}

TEST_P(ImplicitGemm, TakesSlicesOfRows) {
  Conv2dProblem p = in_groups();
  p.input = rows_slice(p.c, p.h, p.w);
  p.output = rows_slice(p.k, p.p(), p.q());
  p.filter = nchw_strides(p.group_c(), p.r, p.s);
  check_integers(p, gpu());
}

TEST_P(ImplicitGemm, LetsInfinitiesReachTheirTapsAlone) {
  const Values filter = small_integers(filter_count(problem_), 1);
  Values input = small_integers(input_count(problem_), 2);
  Values grad_output = small_integers(output_count(problem_), 3);
  input.front() = std::numeric_limits<double>::infinity();
  input.back() = std::numeric_limits<double>::quiet_NaN();
  grad_output.front() = -std::numeric_limits<double>::infinity();
  grad_output.back() = std::numeric_limits<double>::quiet_NaN();
  for (const bool channels_last : {true, false}) {
    Conv2dProblem p = problem_;
    p.set_dense_strides(channels_last);
    check(p, Direction::kFprop, gpu(), input, filter);
    check(p, Direction::kDgrad, gpu(), grad_output, filter);
  }
}

// Whose lines of 64 pixels begin at any word of a sector, or at whole sectors alone.
INSTANTIATE_TEST_SUITE_P(Lines, ImplicitGemm,
                         ::testing::ValuesIn(typed_shapes(
                             {"words n2c16h6w136 k40r3s3", "sectors n1c24h5w194 k72r2s3"}, kTypes)),
                         name_of_typed);

// Of several strips of columns, some rows long each, which end in and behind their last sector; by
// taps that count backwards too.
INSTANTIATE_TEST_SUITE_P(Strips, ImplicitGemm,
                         ::testing::ValuesIn(typed_shapes(
                             {"words n2c16h21w150 k136r3s3 pad=1,0,2,1", "ends n1c8h19w134 k40r2s3",
                              "dilated n1c8h25w216 k24r3s5 dil=3,2 pad=2,4,3,1",
                              "backwards n1c72h20w202 k16r3s2 pad=1,1,0,0"},
                             kTypes)),
                         name_of_typed);

// Of several descents beside and below each other, whose rows begin at any place of a unit, and
// whose channels are no whole chunk; by taps that count forwards and backwards. `padded` has none
// in 16 bits, whose descents in `lead` begin a column before its results.
INSTANTIATE_TEST_SUITE_P(
    Descents, ImplicitGemm,
    ::testing::ValuesIn(typed_shapes(
        {"places n2c16h14w202 k40r3s3", "padded n1c12h20w101 k13r3s3 pad=1,1,1,1",
         "lead n1c12h18w100 k13r3s3 pad=1,1,1,1", "rounds n9c16h40w98 k16r3s3 pad=0,2,2,0"},
        kTypes)),
    name_of_typed);

// Of several teams beside and descents below each other, whose rows begin at any place of a sector,
// with channels that fill no tile and tiles that follow each other; by taps that count forwards and
// backwards.
INSTANTIATE_TEST_SUITE_P(
    TeamDescents, ImplicitGemm,
    ::testing::ValuesIn(typed_shapes(
        {"beside n1c16h12w438 k24r3s3 pad=0,1,2,0", "wide n1c7h9w1500 k16r3s3 pad=1,0,0,2",
         "below n2c5h43w90 k136r3s3 pad=1,1,1,1", "backwards n1c72h20w222 k16r3s3 pad=1,1,0,0"},
        kTypes)),
    name_of_typed);

INSTANTIATE_TEST_SUITE_P(Eights, ImplicitGemm, ::testing::ValuesIn(typed_shapes("eights", kTypes)),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
