// Strides folded into channels and groups merged: the problems that stand for others, computed by
// the definition from what the copies hold, give the others' results. No GPU is needed.
#include "conv2d/families/relaid/block_copy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "conv2d/families/relaid/relaid_problem.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace relaid;

constexpr const char* kFolded[] = {
    "n2c3h24w40 k8r4s4 stride=2,2 pad=1,1,1,1",      // units of two, taps in two blocks
    "n2c21h32w40 k21r16s16 stride=8,8 pad=4,4,4,4",  // FCN's: channels in no whole eights
    "n3c1h20w23 k11r9s9 stride=3,3 pad=4,4,4,4",     // one channel, no units
    "n2c2h17w40 k16r2s8 stride=2,4 pad=1,0,3,2",     // a last row that no tap meets
    "n1c5h16w16 k8r2s2 stride=1,2",                  // strided along rows alone
    "n2c6h1w80 k8r1s10 stride=1,5 pad=0,0,5,0",      // a row
    "n2c16h16w16 k24r16s16 stride=16,16",            // a filter is one block
};
constexpr const char* kMerged[] = {
    "n2c32h10w12 k32r4s4 stride=2,2 pad=1,1,1,1 groups=8",
    "n2c12h7w9 k36r3s3 pad=1,1,1,1 groups=6",  // two channels of six filters
    "n1c35h6w5 k21r1s2 groups=7",              // odd counts
    "n1c24h6w5 k6r3s2 groups=3",               // eight channels, two filters
};

// Dense (n, c, h, w) values as they lie in memory.
Values in_memory(const Values& values, const Strides& at, int64_t n, int64_t c, int64_t h,
                 int64_t w) {
  Values memory(values.size());
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t column = i % w, row = i / w % h, channel = i / (w * h) % c,
                  image = i / (c * h * w);
    EXPECT_LT(image, n);
    memory.at(image * at.n + channel * at.c + row * at.h + column * at.w) = values.at(i);
  }
  return memory;
}

// Where a place of the dense tensor is among its (n, c, h, w) values.
int64_t dense_index(const BlockCopy& copy, int32_t pixel, int32_t channel) {
  const int64_t pixels = int64_t{copy.rows.divisor} * copy.columns.divisor;
  return (pixel / pixels * copy.pitch.divisor + channel) * pixels + pixel % pixels;
}

// What the kernel writes, as dense (n, c, h, w) values.
Values to_blocks(const BlockCopy& copy, const Values& memory) {
  Values dense(copy.dense_elements());
  for (int32_t pixel = 0; pixel < copy.dense_pixels(); ++pixel) {
    for (int32_t channel = 0; channel < copy.pitch.divisor; ++channel) {
      const BlockPlace of = copy.place(pixel, channel);
      if (of.exists) dense.at(dense_index(copy, pixel, channel)) = memory.at(of.offset);
      // A unit's elements are neighbours, or none is there.
      const BlockPlace first = copy.place(pixel, channel / copy.unit * copy.unit);
      EXPECT_EQ(first.exists, of.exists);
      if (of.exists) {
        EXPECT_EQ(of.offset - first.offset, channel % copy.unit);
        EXPECT_EQ(first.offset % copy.unit, 0);
      }
    }
  }
  return dense;
}

Values from_blocks(const BlockCopy& copy, const Values& dense) {
  Values memory(copy.elements(), 1e9);
  for (int32_t i = 0; i < copy.elements(); ++i) {
    const int32_t pixel = i / copy.channels, channel = i % copy.channels;
    const BlockPlace of = copy.place(pixel, channel);
    EXPECT_TRUE(of.exists);
    EXPECT_EQ(memory.at(of.offset), 1e9) << "written twice";
    memory.at(of.offset) =
        dense.at(dense_index(copy, pixel, copy.first_channel(of.image) + channel));
  }
  return memory;
}

// With zeros for further channels.
Values padded(const Values& values, int64_t n, int64_t c, int64_t to, int64_t pixels) {
  Values wide(n * to * pixels);
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t image = i / (c * pixels);
    wide.at(i + image * (to - c) * pixels) = values.at(i);
  }
  return wide;
}

// The first channels of more.
Values first_of(const Values& values, int64_t n, int64_t c, int64_t of, int64_t pixels) {
  Values some(n * c * pixels);
  for (int64_t i = 0; i < std::ssize(some); ++i) {
    some.at(i) = values.at(i + i / (c * pixels) * (of - c) * pixels);
  }
  return some;
}

class Blocks : public ::testing::TestWithParam<bool> {
 protected:
  Conv2dProblem problem(const char* text, DataType type) const {
    Conv2dProblem p = channels_last_problem(text, type);
    p.set_dense_strides(GetParam());
    return p;
  }
};

TEST_P(Blocks, HaveWhatAStridedFilterMeets) {
  for (const char* text : kFolded) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      const Conv2dProblem p = problem(text, type);
      const Values input = small_integers(input_count(p), 1);
      const Values filter = small_integers(filter_count(p), 2);
      const auto relaid = fold_strides(p, Direction::kFprop, true);
      ASSERT_TRUE(relaid) << p;
      const Conv2dProblem& to = relaid->problem;
      EXPECT_EQ(to.p(), p.p());
      EXPECT_EQ(to.q(), p.q());
      const Values output = reference_fprop(
          to, to_blocks(*relaid->input_blocks, in_memory(input, p.input, p.n, p.c, p.h, p.w)),
          to_blocks(*relaid->filter_blocks, in_memory(filter, p.filter, p.k, p.c, p.r, p.s)), {});
      EXPECT_EQ(first_of(output, p.n, p.k, to.k, p.p() * p.q()),
                reference_fprop(p, input, filter, {}))
          << p;
    }
  }
}

TEST_P(Blocks, GiveAStridedFiltersGradient) {
  for (const char* text : kFolded) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      const Conv2dProblem p = problem(text, type);
      const Values input = small_integers(input_count(p), 1);
      const Values grads = small_integers(output_count(p), 3);
      const auto relaid = fold_strides(p, Direction::kWgrad, true);
      ASSERT_TRUE(relaid) << p;
      const Conv2dProblem& to = relaid->problem;
      const Values gradient = reference_wgrad(
          to, padded(grads, p.n, p.k, to.k, p.p() * p.q()),
          to_blocks(*relaid->input_blocks, in_memory(input, p.input, p.n, p.c, p.h, p.w)));
      EXPECT_EQ(from_blocks(*relaid->filter_blocks, gradient),
                in_memory(reference_wgrad(p, grads, input), p.filter, p.k, p.c, p.r, p.s))
          << p;
    }
  }
}

TEST_P(Blocks, GiveEachFilterItsGroupsGradient) {
  size_t made = 0;
  for (const char* text : kMerged) {
    const Conv2dProblem p = problem(text, DataType::kBFloat16);
    const Values input = small_integers(input_count(p), 1);
    const Values grads = small_integers(output_count(p), 3);
    const auto problems = merge_groups(p, true);
    ASSERT_FALSE(problems.empty()) << p;
    for (const RelaidProblem& relaid : problems) {
      const Conv2dProblem& to = relaid.problem;
      ++made;
      const Values gradient = reference_wgrad(to, padded(grads, p.n, p.k, to.k, p.p() * p.q()),
                                              padded(input, p.n, p.c, to.c, p.h * p.w));
      // The kernel in between writes the gradients of added filters too.
      EXPECT_EQ(relaid.filter_blocks->dense_elements(), std::ssize(gradient)) << p;
      EXPECT_EQ(from_blocks(*relaid.filter_blocks, gradient),
                in_memory(reference_wgrad(p, grads, input), p.filter, p.k, p.group_c(), p.r, p.s))
          << p;
    }
  }
  EXPECT_EQ(made, std::size(kMerged) + (GetParam() ? 0 : 1));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Blocks, ::testing::Bool());

TEST(BlockCopies, MoveAsManyElementsAtOnceAsLieTogether) {
  const auto unit = [](const char* text, bool channels_last, DataType type = DataType::kBFloat16) {
    Conv2dProblem p = channels_last_problem(text, type);
    p.set_dense_strides(channels_last);
    return fold_strides(p, Direction::kFprop, true)->input_blocks->unit;
  };
  const char* const fcn = "n8c21h256w256 k21r16s16 stride=8,8 pad=4,4,4,4";
  EXPECT_EQ(unit(fcn, false), 4);
  EXPECT_EQ(unit(fcn, true), 4);
  EXPECT_EQ(unit(fcn, false, DataType::kFloat32), 4);
  EXPECT_EQ(unit("n8c21h256w256 k21r16s16 stride=8,8", false), 8);
  EXPECT_EQ(unit("n8c3h64w64 k64r4s4 stride=2,2 pad=1,1,1,1", false), 1);
  EXPECT_EQ(unit("n8c3h64w64 k64r4s4 stride=2,2", false), 2);
  EXPECT_EQ(unit("n16c1h192w192 k56r9s9 stride=3,3 pad=4,4,4,4", true), 1);
}

TEST(BlockCopies, AreMadeWherePlansMayGain) {
  const auto folds = [](const std::string& text, Direction direction = Direction::kFprop) {
    return fold_strides(channels_last_problem(text), direction, true).has_value();
  };
  EXPECT_TRUE(folds("n1c3h9w9 k8r4s4 stride=2,2"));
  EXPECT_TRUE(folds("n1c3h9w9 k8r4s4 stride=2,2", Direction::kWgrad));
  EXPECT_FALSE(folds("n1c3h9w9 k8r4s4 stride=2,2", Direction::kDgrad));
  EXPECT_FALSE(folds("n1c3h9w9 k8r4s4"));
  EXPECT_FALSE(folds("n1c3h9w9 k8r3s4 stride=2,2"));
  EXPECT_FALSE(folds("n1c3h9w9 k8r4s4 stride=2,2 dil=1,2"));
  EXPECT_FALSE(folds("n1c64h9w9 k8r4s4 stride=2,2"));
  EXPECT_FALSE(folds("n1c4h9w9 k8r4s4 stride=2,2 groups=2"));
  const auto merges = [](const std::string& text) {
    return merge_groups(channels_last_problem(text), true).size();
  };
  EXPECT_EQ(merges("n1c16h9w9 k16r3s3 groups=4"), 1u);
  EXPECT_EQ(merges("n1c16h9w9 k16r3s3"), 0u);
  EXPECT_EQ(merges("n1c16h9w9 k16r3s3 groups=2"), 0u) << "groups of eight have kernels";
  EXPECT_EQ(merges("n1c16h9w9 k16r3s3 groups=16"), 0u) << "so have depthwise ones";
}

TEST(BlockCopies, AreInTheirPlansText) {
  const auto has = [](const Conv2dProblem& p, Direction direction, std::string_view text) {
    const auto plans = plans_of("relaid", {.problem = p, .direction = direction});
    return std::any_of(plans.begin(), plans.end(),
                       [&](const FamilyPlan& of) { return of.says(text); });
  };
  Conv2dProblem fcn = channels_last_problem("n8c21h64w64 k21r16s16 stride=8,8 pad=4,4,4,4");
  EXPECT_TRUE(
      has(fcn, Direction::kFprop, " relaid in channels folded=8x8 input,filter,output for"));
  fcn.set_dense_strides(false);
  EXPECT_TRUE(has(fcn, Direction::kWgrad, " relaid in channels folded=8x8 input,filter"));
  Conv2dProblem groups = channels_last_problem("n2c32h16w16 k32r4s4 stride=2,2 groups=8");
  EXPECT_TRUE(has(groups, Direction::kWgrad, " relaid in channels merged=8 filter for"));
  groups.set_dense_strides(false);
  EXPECT_TRUE(has(groups, Direction::kWgrad, " relaid in rows merged=4 filter for"));
}

}  // namespace
}  // namespace haloconv::testing
