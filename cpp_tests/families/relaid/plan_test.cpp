// What problems with rows innermost become, and the plans around them. No GPU is needed.
#include <gtest/gtest.h>

#include "conv2d/families.h"
#include "conv2d/families/relaid/arguments.h"
#include "conv2d/families/relaid/relaid_problem.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace relaid;

constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad, Direction::kWgrad};

Conv2dProblem rows_problem(const std::string& text, DataType type = DataType::kBFloat16) {
  Conv2dProblem problem = channels_last_problem(text, type);
  problem.set_dense_strides(false);
  return problem;
}

std::string declined(const Conv2dProblem& problem, Direction direction, const Chip& chip = h200()) {
  for (const Family* family : families()) {
    if (family->name != "relaid") continue;
    return family->ask({.problem = problem, .direction = direction, .chip = chip}).declined;
  }
  return "there is no such family";
}

TEST(RelaidPlans, AreMadeForRowsInnermost) {
  const Conv2dProblem p = rows_problem("n8c64h28w28 k128r3s3 stride=2,2 pad=1,1,1,1");
  for (const Direction direction : kDirections) {
    const auto plans = timed_plans_of("relaid", {.problem = p, .direction = direction});
    ASSERT_FALSE(plans.empty()) << direction;
    EXPECT_LE(plans.size(), 2u);
    for (const FamilyPlan& of : plans) {
      EXPECT_GE(of.plan->workspace_bytes, static_cast<int64_t>(p.bytes())) << of;
      EXPECT_TRUE(of.says(" relaid in channels input,filter,output for channels_last")) << of;
    }
  }
}

TEST(RelaidPlans, CostWhatTheCopiesCostMoreThanThePlanBetween) {
  const Conv2dProblem rows = rows_problem("n32c256h56w56 k256r3s3 pad=1,1,1,1");
  Conv2dProblem channels = rows;
  channels.set_dense_strides(true);
  for (const Direction direction : kDirections) {
    const double ms = timed_plans_of("relaid", {.problem = rows, .direction = direction})
                          .front()
                          .plan->estimated_ms;
    double least = ms;
    for (const FamilyPlan& of :
         timed_plans_of("sm90", {.problem = channels, .direction = direction})) {
      least = std::min(least, of.plan->estimated_ms);
    }
    // The weight gradient's kernels for channels innermost take the output's gradient as it is.
    const double kept =
        direction == Direction::kWgrad
            ? static_cast<double>(rows.n * rows.k * rows.p() * rows.q() * size_of(rows.type))
            : 0;
    const double copy_ms = 2 * (rows.bytes() - kept) / h200().memory_rate * 1e3;
    EXPECT_GT(ms, least + copy_ms) << direction;
    // Of the weight gradient's plans, the fastest does not take rows.
    EXPECT_LT(ms, least + 2.2 * copy_ms) << direction;
  }
}

TEST(RelaidPlans, CopyNothingThatLiesSo) {
  Conv2dProblem p = rows_problem("n2c64h9w11 k128r1s1");
  const auto plans = timed_plans_of("relaid", {.problem = p, .direction = Direction::kFprop});
  ASSERT_FALSE(plans.empty());
  // A filter of one tap has its channels innermost.
  EXPECT_TRUE(plans.front().says(" relaid in channels input,output for ")) << plans.front();
  const auto unaligned =
      timed_plans_of("relaid", {.problem = p, .direction = Direction::kFprop, .is_aligned = false});
  ASSERT_FALSE(unaligned.empty());
  EXPECT_TRUE(unaligned.front().says(" relaid in channels input,filter,output for "))
      << unaligned.front();
}

TEST(RelaidPlans, CopyNoFilterByTapsForwards) {
  const auto best = [](Conv2dProblem p, Direction direction, bool is_aligned = true) {
    p.filter = filter_by_taps(p);
    const auto plans =
        timed_plans_of("relaid", {.problem = p, .direction = direction, .is_aligned = is_aligned});
    return plans.empty() ? std::string() : plans.front().plan->text();
  };
  const auto copies = [](const std::string& text, const char* what) {
    return text.find(std::string(" relaid in channels ") + what + " for ") != std::string::npos;
  };
  const Direction fprop = Direction::kFprop;
  const Conv2dProblem p = rows_problem("n2c64h9w11 k128r3s3");
  EXPECT_TRUE(copies(best(p, fprop), "input,output"));
  const Conv2dProblem tf32 = rows_problem("n2c64h9w11 k128r3s3", DataType::kFloat32);
  EXPECT_TRUE(copies(best(tf32, fprop), "input") || copies(best(tf32, fprop), "input,output"));
  // Nor others whose channels are innermost.
  Conv2dProblem slice = p;
  slice.filter = channels_last_slice(p.c, p.r, p.s);
  EXPECT_FALSE(relay(slice, fprop, true, false).filter);
  EXPECT_TRUE(copies(best(p, Direction::kDgrad), "input,filter,output"));
  EXPECT_TRUE(copies(best(p, fprop, /*is_aligned=*/false), "input,filter,output"));
  EXPECT_TRUE(copies(best(rows_problem("n2c60h9w11 k128r3s3"), fprop), "input,filter,output"));
  EXPECT_TRUE(copies(best(rows_problem("n2c64h9w11 k124r3s3"), fprop), "input,filter,output"));
}

TEST(RelaidPlans, AreDeclinedForAReason) {
  const std::string text = "n2c64h9w11 k128r3s3";
  const Direction fprop = Direction::kFprop;
  EXPECT_EQ(declined(rows_problem(text, DataType::kFloat64), fprop), "the element type is float64");
  EXPECT_EQ(declined(rows_problem(text + " groups=2"), fprop), "it has groups");
  EXPECT_EQ(declined(channels_last_problem(text), fprop), "channels are innermost");
  Conv2dProblem apart = rows_problem(text);
  apart.input.w = 2;
  EXPECT_EQ(declined(apart, fprop), "rows are not contiguous in memory");
  EXPECT_EQ(declined(rows_problem("n64c64h600w600 k64r3s3"), fprop),
            "its copies take more than 4 GiB");
  const Chip a100 = chip_of("NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(declined(rows_problem(text), fprop, a100),
            "the device is not of compute capability 9.0 but of 8.0");
}

TEST(RelaidPlans, AreMadeForWeightGradientsWithChannelsInnermost) {
  Conv2dProblem p = channels_last_problem("n16c16h64w64 k16r3s3 pad=1,1,1,1", DataType::kFloat32);
  const Direction wgrad = Direction::kWgrad;
  const auto plans = timed_plans_of("relaid", {.problem = p, .direction = wgrad});
  ASSERT_FALSE(plans.empty());
  EXPECT_TRUE(plans.front().says(" relaid in rows input,filter,output for wgrad")) << plans.front();
  EXPECT_EQ(declined(channels_last_problem("n2c6h9w11 k128r3s3"), wgrad),
            "channels are innermost, in no whole 16 bytes");
  p.input = channels_last_slice(p.c, p.h, p.w);
  EXPECT_EQ(declined(p, wgrad), "channels are innermost, but a tensor is not dense");
}

TEST(RelaidPlans, KeepTheOutputsGradientWhereKernelsTakeItsRows) {
  const auto best = [](const Conv2dProblem& p) {
    const auto plans = timed_plans_of("relaid", {.problem = p, .direction = Direction::kWgrad});
    return plans.empty() ? std::string() : plans.front().plan->text();
  };
  const auto keeps = [&](const Conv2dProblem& p) {
    return best(p).find("relaid in channels input,filter for channels_last_wgrad") !=
           std::string::npos;
  };
  EXPECT_TRUE(keeps(rows_problem("n8c32h512w512 k64r5s9")));
  EXPECT_FALSE(keeps(rows_problem("n8c32h512w511 k64r5s9"))) << "rows of no whole 16 bytes";
  EXPECT_FALSE(keeps(rows_problem("n8c32h512w512 k64r5s1"))) << "taps share no boxes";
}

TEST(RelaidProblems, HaveWholeEightsOfChannels) {
  const Conv2dProblem p = rows_problem("n2c21h9w11 k13r3s3");
  const RelaidProblem relaid = relay(p, Direction::kWgrad, true, false);
  EXPECT_EQ(relaid.problem.c, 24);
  EXPECT_EQ(relaid.problem.k, 16);
  EXPECT_EQ(relaid.problem.input.w, 24);
  EXPECT_EQ(relaid.problem.output.w, 16);
  EXPECT_EQ(relaid.filter->pixels, 13 * 9);
  EXPECT_EQ(relaid.filter->padded_pixels, 16 * 9);
  EXPECT_EQ(relaid.filter->padded_channels, 24);
  EXPECT_EQ(relaid.values->channels, 13);
}

// With channels innermost those tensors alone are copied whose channels fill no whole 16 bytes.
TEST(RelaidProblems, AddZerosWhereChannelsAreInnermost) {
  Conv2dProblem p = channels_last_problem("n2c64h9w11 k20r3s3");
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
    EXPECT_EQ(declines(p, direction, true), "");
    const RelaidProblem relaid = relay(p, direction, true, false);
    EXPECT_FALSE(relaid.has_rows);
    const bool wgrad = direction == Direction::kWgrad;
    EXPECT_EQ(relaid.problem.k, wgrad ? 20 : 24) << "a filter's gradient is not copied";
    EXPECT_EQ(relaid.problem.output.w, 24);
    EXPECT_FALSE(relaid.input);
    EXPECT_EQ(relaid.filter.has_value(), !wgrad);
    EXPECT_TRUE(relaid.output);
  }
  p = channels_last_problem("n2c64h9w11 k6r3s3");
  EXPECT_EQ(declines(p, Direction::kFprop, true), "channels are innermost") << "few";
}

TEST(RelaidProblems, KeepFewInputChannels) {
  const Conv2dProblem p = rows_problem("n2c3h9w11 k16r3s3");
  EXPECT_TRUE(has_few_channels(p, Direction::kFprop));
  EXPECT_TRUE(has_few_channels(p, Direction::kDgrad));
  EXPECT_FALSE(has_few_channels(p, Direction::kWgrad));
  EXPECT_FALSE(has_few_channels(rows_problem("n2c8h9w11 k16r3s3"), Direction::kFprop));
  const RelaidProblem fprop = relay(p, Direction::kFprop, true, true);
  EXPECT_EQ(fprop.problem.c, 3);
  EXPECT_EQ(fprop.problem.input.w, 8);
  const RelaidProblem dgrad = relay(p, Direction::kDgrad, true, true);
  EXPECT_EQ(dgrad.problem.c, 3);
  EXPECT_EQ(dgrad.problem.input.w, 3);
  EXPECT_EQ(dgrad.input->padded_channels, 3);
  EXPECT_EQ(relay(p, Direction::kDgrad, true, false).problem.c, 8);
}

TEST(RelaidProblems, HaveOnlyPixelsThatAreMet) {
  const Conv2dProblem p = rows_problem("n2c16h9w12 k32r1s1 stride=2,3");
  for (const Direction direction : kDirections) {
    const RelaidProblem relaid = relay(p, direction, true, false);
    EXPECT_EQ(relaid.problem.h, 5);
    EXPECT_EQ(relaid.problem.w, 4);
    EXPECT_EQ(relaid.problem.stride_w, 1);
    EXPECT_EQ(relaid.input->padded_pixels, 2 * 5 * 4);
    // Of the input's gradient the others are written too.
    EXPECT_EQ(relaid.input->pixels, direction == Direction::kDgrad ? 2 * 9 * 12 : 2 * 5 * 4);
  }
}

// The filter's copy is dense, however the filter lies.
TEST(RelaidProblems, FoldFiltersByTaps) {
  Conv2dProblem p = rows_problem("n2c16h16w16 k24r16s16 stride=16,16");
  const auto as_it_was = fold_strides(p, Direction::kFprop, true);
  p.filter = filter_by_taps(p);
  const auto folded = fold_strides(p, Direction::kFprop, true);
  ASSERT_TRUE(as_it_was && folded);
  EXPECT_EQ(folded->problem.filter.n, as_it_was->problem.filter.n);
  EXPECT_EQ(folded->problem.filter.n, 16 * 16 * 16);
  EXPECT_EQ(folded->filter_blocks->strides.n, p.filter.n);
}

// Where stride and dilation have a common divisor, taps meet each so many-th row and column.
TEST(RelaidProblems, HaveOnlyPixelsThatDilatedTapsMeet) {
  const auto relaid = [](const char* text, Direction direction = Direction::kFprop) {
    return relay(rows_problem(text), direction, true, false);
  };
  const char* const text = "n2c16h9w14 k32r3s3 stride=2,4 pad=2,4,4,2 dil=2,6";
  for (const Direction direction : {Direction::kFprop, Direction::kWgrad}) {
    const RelaidProblem r = relaid(text, direction);
    EXPECT_TRUE(r.skips_pixels);
    const Conv2dProblem &p = r.problem, original = rows_problem(text);
    EXPECT_EQ(p.p(), original.p());
    EXPECT_EQ(p.q(), original.q());
    EXPECT_EQ(p.h, 5);
    EXPECT_EQ(p.w, 7);
    EXPECT_EQ(p.stride_h, 1);
    EXPECT_EQ(p.stride_w, 2);
    EXPECT_EQ(p.dilation_h, 1);
    EXPECT_EQ(p.dilation_w, 3);
    EXPECT_EQ(p.pad_top, 1);
    EXPECT_EQ(p.pad_left, 2);
    EXPECT_EQ(r.input->pixels, 2 * 5 * 7);
    EXPECT_EQ(r.input->strides.w, 2);
  }
  EXPECT_FALSE(relaid(text, Direction::kDgrad).skips_pixels);
  EXPECT_FALSE(relaid("n2c16h9w9 k32r3s3 stride=2,2 pad=1,1,1,1 dil=2,2").skips_pixels)
      << "the first pixel is not met";
  EXPECT_FALSE(relaid("n2c16h9w9 k32r3s3 stride=2,2 dil=3,3").skips_pixels);
  // Neither those beyond the last one that is met.
  const RelaidProblem one_row = relaid("n2c16h9w12 k32r1s3 stride=3,1");
  EXPECT_EQ(one_row.problem.h, 3);
  EXPECT_EQ(one_row.problem.pad_bottom, 0);
  EXPECT_EQ(one_row.problem.w, 12);
}

TEST(RelaidPlans, CopyNoResultOfFloat32ThatKernelsWriteInRows) {
  const auto some_keep = [](const Conv2dProblem& p, Direction direction = Direction::kFprop) {
    bool keep = false;
    for (const FamilyPlan& of : timed_plans_of("relaid", {.problem = p, .direction = direction})) {
      const bool keeps = of.says(" relaid in channels input,filter for channels_last (");
      EXPECT_EQ(of.says(" rows "), keeps) << of;
      const bool is_turned = of.says(" turned ");
      EXPECT_EQ(of.plan->takes_bias, !keeps && !is_turned) << of;
      keep = keep || keeps;
    }
    return keep;
  };
  const char* const dcgan = "n128c128h16w16 k256r4s4 stride=2,2 pad=1,1,1,1";
  EXPECT_TRUE(some_keep(rows_problem(dcgan, DataType::kFloat32)));
  EXPECT_TRUE(some_keep(rows_problem("n8c64h9w11 k64r3s3", DataType::kFloat32)));
  EXPECT_FALSE(some_keep(rows_problem(dcgan, DataType::kFloat32), Direction::kDgrad));
  EXPECT_FALSE(some_keep(rows_problem(dcgan)));
  EXPECT_FALSE(some_keep(rows_problem("n8c64h9w11 k63r3s3", DataType::kFloat32)));
}

TEST(RelaidCopies, MoveAsManyPixelsAtOnceAsLieTogether) {
  const auto unit = [](int64_t h, int64_t w) {
    return make_copy(DataType::kBFloat16, nchw_strides(4, h, w), 3, 4, h, w, 3).unit;
  };
  EXPECT_EQ(unit(28, 28), 8);
  EXPECT_EQ(unit(14, 14), 4);
  EXPECT_EQ(unit(6, 7), 2);
  EXPECT_EQ(unit(7, 7), 1);
  EXPECT_EQ(unit(4, 2), 8);  // rows follow each other
  EXPECT_EQ(make_copy(DataType::kBFloat16, rows_slice(4, 8, 8), 3, 4, 8, 8, 3).unit, 1);
  EXPECT_EQ(make_copy(DataType::kBFloat16, nhwc_strides(4, 8, 8), 3, 4, 8, 8, 3).unit, 1);
  const TensorCopy eights = make_copy(DataType::kBFloat16, nchw_strides(4, 8, 8), 3, 4, 8, 8, 3);
  const auto* const address = reinterpret_cast<const char*>(uintptr_t{1024});
  EXPECT_EQ(unit_at(eights, address), 8);
  EXPECT_EQ(unit_at(eights, address + 8), 4);
  EXPECT_EQ(unit_at(eights, address + 2), 1);
  EXPECT_EQ(make_copy(DataType::kFloat32, nchw_strides(4, 8, 8), 3, 4, 8, 8, 3).unit, 4);
}

TEST(RelaidCopies, HaveTilesOfWhatThereIs) {
  const auto tiles = [](DataType type, int64_t c, int64_t h, int64_t w, bool from_dense) {
    TensorCopy copy = make_copy(type, nchw_strides(c, h, w), 3, c, h, w, 3);
    set_tiles(copy, from_dense);
    return std::pair(copy.way, copy.tiles);
  };
  EXPECT_EQ(tiles(DataType::kBFloat16, 65, 8, 9, true), std::pair(Way::kSquares, 4 * 2));
  EXPECT_EQ(tiles(DataType::kFloat32, 65, 8, 9, true), std::pair(Way::kSquares, 7 * 3));
  EXPECT_EQ(tiles(DataType::kBFloat16, 3, 32, 32, true), std::pair(Way::kFewChannels, 6));
  EXPECT_EQ(tiles(DataType::kBFloat16, 3, 32, 32, false), std::pair(Way::kSquares, 48));
  EXPECT_EQ(tiles(DataType::kBFloat16, 65, 3, 3, true), std::pair(Way::kImages, 2));
  EXPECT_EQ(tiles(DataType::kBFloat16, 65, 5, 5, true), std::pair(Way::kImages, 2 * 2));
  EXPECT_EQ(tiles(DataType::kBFloat16, 65, 5, 5, false), std::pair(Way::kSquares, 2 * 2));
  EXPECT_EQ(tiles(DataType::kBFloat16, 65, 7, 7, false), std::pair(Way::kImages, 3 * 2));
}

}  // namespace
}  // namespace haloconv::testing
