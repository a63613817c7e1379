#include "conv2d/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <string>

#include "conv2d/families.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

const Conv2dProblem kPlain = parse_shape("a n8c32h64w64 k32r3s3").problem;

std::string text_of(const Choice& choice) {
  std::ostringstream text;
  text << choice;
  return text.str();
}

// The group of the family that was chosen, or "aten", or "none".
std::string_view chosen_group(const Choice& choice) {
  if (choice.candidates.empty()) return "none";
  const Candidate& chosen = choice.candidates.front();
  return chosen.is_aten() ? kAten : chosen.family->group;
}

TEST(Choice, AsksEveryFamilyInOrderAndAtenLast) {
  const Choice choice = choose({.problem = kPlain});
  ASSERT_EQ(choice.replies.size(), families().size() + 1);
  for (size_t i = 0; i < families().size(); ++i) {
    EXPECT_EQ(choice.replies[i].family, families()[i]);
    EXPECT_NE(choice.replies[i].answer.declined.empty(), choice.replies[i].answer.plans.empty());
  }
  EXPECT_EQ(choice.replies.back().name(), kAten);
}

TEST(Choice, WithoutKernelsEveryFamilySaysWhyAndAtenIsLeft) {
  const std::string why = "the driver is too old";
  const Chip unknown = make_chip({.name = "unknown", .multiprocessors = 1});
  const Choice choice = choose_without_kernels({.problem = kPlain, .chip = unknown}, "", why);
  EXPECT_EQ(chosen_group(choice), kAten);
  EXPECT_EQ(choice.candidates.size(), 1u);
  ASSERT_EQ(choice.replies.size(), families().size() + 1);
  for (const Reply& reply : choice.replies) {
    EXPECT_EQ(reply.answer.declined, reply.family == nullptr ? "" : why) << choice;
  }
}

TEST(Choice, WithoutKernelsWhatIsForcedDeclines) {
  const std::string why = "the driver is too old";
  const Choice choice = choose_without_kernels({.problem = kPlain}, "halo", why);
  EXPECT_EQ(chosen_group(choice), "none");
  for (const Reply& reply : choice.replies) {
    EXPECT_EQ(reply.answer.declined,
              reply.name() == "halo" ? why : "another implementation is forced")
        << choice;
  }
  EXPECT_EQ(chosen_group(choose_without_kernels({.problem = kPlain}, kAten, why)), kAten);
}

TEST(Choice, NamesWhatMayBeForcedOnce) {
  const auto names = forceable_names(families());
  for (const char* name : {"sm90", "generic", "aten", "halo", "depthwise"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST(Choice, TakesTheSmallestEstimate) {
  for (const Shape& shape : load_shapes("layers")) {
    for (const bool tf32 : {true, false}) {
      const Choice choice = choose({.problem = shape.problem,
                                    .direction = Direction::kWgrad,
                                    .tf32 = tf32,
                                    .with_bias = true});
      ASSERT_FALSE(choice.candidates.empty());
      const Candidate& chosen = choice.candidates.front();
      const double ms =
          chosen.is_aten() ? choice.replies.back().estimated_ms : chosen.plan->estimated_ms;
      for (const Reply& reply : choice.replies) {
        if (!reply.answer.declined.empty()) continue;
        EXPECT_LE(ms, reply.estimated_ms) << shape;
      }
    }
  }
}

// Of all its plans the family lists those that are worth being timed.
TEST(Choice, TakesTheSameFromTheListedPlansAsFromAll) {
  for (const Shape& shape : load_shapes("layers")) {
    for (const bool channels_last : {false, true}) {
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        Request request{.problem = shape.problem, .direction = direction};
        request.problem.set_dense_strides(channels_last);
        const Choice listed = choose(request, "implicit_gemm");
        request.every_plan = true;
        const Choice all = choose(request, "implicit_gemm");
        ASSERT_EQ(listed.candidates.size(), all.candidates.size()) << shape;
        for (size_t i = 0; i < all.candidates.size(); ++i) {
          EXPECT_EQ(listed.candidates[i].plan->text(), all.candidates[i].plan->text()) << shape;
        }
      }
    }
  }
}

// By which the results of timing are kept: two plans of one text would be taken for each other.
TEST(Choice, EachCandidateHasATextOfItsOwn) {
  for (const char* shapes : {"layers", "networks", "edges", "transposed", "one_dimensional"}) {
    for (const Shape& shape : load_shapes(shapes)) {
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
        std::set<std::string> texts;
        for (const Candidate& each :
             choose({.problem = shape.problem, .direction = direction}).candidates) {
          std::ostringstream text;
          text << each;
          EXPECT_TRUE(texts.insert(text.str()).second) << shape << ": " << text.str();
        }
      }
    }
  }
}

// A plan of no family, which rounds or does not.
Candidate that_rounds(bool rounds) {
  struct SomePlan final : Plan {
    void print(std::ostream& os) const override { os << "some"; }
  };
  const auto plan = std::make_shared<SomePlan>();
  plan->rounds_to_tf32 = rounds;
  return {.family = families().front(), .plan = plan};
}

TEST(Choice, TakesTheFastestThatWasTimedAndAtenNearADraw) {
  const Candidate halo = that_rounds(false), other = that_rounds(false), aten;
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fastest_of({{halo, 1.0}, {halo, 0.99}, {aten, 1.2}}), 1);
  EXPECT_EQ(fastest_of({{halo, 0.99}, {aten, 1.0}, {other, 0.985}}), 1);
  EXPECT_EQ(fastest_of({{aten, 1.0}, {halo, 0.97}}), 1);
  EXPECT_EQ(fastest_of({{halo, kFailed}, {other, 3.0}, {aten, kFailed}}), 1);
  EXPECT_EQ(fastest_of({{halo, kFailed}, {aten, kFailed}}), std::nullopt);
  EXPECT_EQ(fastest_of({}), std::nullopt);
}

TEST(Choice, RoundsNothingWhereThatCostsNothing) {
  const Candidate rounding = that_rounds(true), full = that_rounds(false), aten;
  EXPECT_EQ(fastest_of({{rounding, 1.0}, {full, 1.02}}), 1);
  EXPECT_EQ(fastest_of({{rounding, 1.0}, {full, 1.04}}), 0);
  EXPECT_EQ(fastest_of({{rounding, 1.0}, {aten, 1.03}}), 0);  // which may round too
  EXPECT_EQ(fastest_of({{aten, 1.0}, {full, 1.02}, {rounding, 1.0}}), 0);
}

// Bound by arithmetic: 3x3 on many channels; by bytes: 1x1.
TEST(Choice, ExpectsFullFloat32ToCostNothingWhereBytesDecide) {
  const auto rounds = [](const char* text, Direction direction) {
    const Choice choice =
        choose({.problem = parse_shape(text).problem, .direction = direction}, "sm90");
    return choice.candidates.front().plan->rounds_to_tf32;
  };
  EXPECT_TRUE(rounds("a n8c256h56w56 k256r3s3 pad=1,1,1,1", Direction::kFprop));
  EXPECT_TRUE(rounds("a n8c256h56w56 k256r3s3 pad=1,1,1,1", Direction::kWgrad));
  EXPECT_FALSE(rounds("a n64c256h56w56 k64r1s1", Direction::kFprop));
}

// Where a plan that rounds nothing is chosen though another of its family is faster, the text shows
// that one.
TEST(Choice, SaysWhetherFloat32IsComputedInFull) {
  const Request free{.problem = parse_shape("a n64c256h56w56 k64r1s1").problem};
  const Choice choice = choose(free, "sm90");
  const Candidate& chosen = choice.candidates.front();
  const std::string text = text_of(choice);
  EXPECT_NE(text.find(chosen.plan->text()), std::string::npos) << text;
  EXPECT_NE(chosen.plan->text().find("precise"), std::string::npos) << text;
  EXPECT_EQ(describe_rounding(free, chosen), "float32: in full, though TF32 is allowed\n");
  EXPECT_EQ(describe_rounding(free, that_rounds(true)), "float32: rounded to TF32\n");
  EXPECT_EQ(describe_rounding(free, {}), "float32: as PyTorch computes it where TF32 is allowed\n");
  Request without_tf32 = free, of_16_bits = free;
  without_tf32.tf32 = false;
  of_16_bits.problem.type = DataType::kBFloat16;
  EXPECT_EQ(describe_rounding(without_tf32, chosen), "");
  EXPECT_EQ(describe_rounding(of_16_bits, chosen), "");
}

// Cases far from a draw in the sweep that benchmarks/NOTES.md records.
TEST(Choice, FollowsTheMeasurements) {
  struct Case {
    const char* file;
    const char* name;
    Direction direction;
    bool tf32;
    std::string_view faster;
  };
  const Case cases[] = {
      {"reference", "square_3x3", Direction::kFprop, true, "sm90"},
      {"reference", "asym_5x7", Direction::kFprop, true, "sm90"},
      {"reference", "dilated_5x9", Direction::kFprop, true, "sm90"},
      {"reference", "asym_5x9", Direction::kDgrad, true, "sm90"},
      {"reference", "square_3x3", Direction::kFprop, false, "sm90"},
      {"reference", "dilated_5x9", Direction::kDgrad, true, "sm90"},
      {"reference", "dilated_5x9", Direction::kDgrad, false, "sm90"},
      {"reference", "asym_5x9", Direction::kFprop, false, "sm90"},
      {"reference", "asym_5x9", Direction::kDgrad, false, "sm90"},
      {"reference", "square_3x3", Direction::kWgrad, true, "sm90"},
      {"reference", "asym_5x7", Direction::kWgrad, true, "sm90"},
      {"reference", "dilated_5x9", Direction::kWgrad, true, "sm90"},
      {"reference", "asym_5x9", Direction::kWgrad, true, "sm90"},
      {"networks", "unet_256_b", Direction::kWgrad, false, "sm90"},
      {"networks", "unet_64_up", Direction::kWgrad, false, kAten},
      {"networks", "unet_64_up", Direction::kFprop, false, "sm90"},
      {"networks", "resnet50_4_skip", Direction::kDgrad, false, kAten},
      {"layers", "depthwise_3x3", Direction::kFprop, true, "generic"},
      {"layers", "depthwise_3x3", Direction::kDgrad, true, "generic"},
      {"layers", "depthwise_small", Direction::kWgrad, true, "generic"},
      {"layers", "resnext_2", Direction::kDgrad, false, "generic"},
  };
  for (const Case& expected : cases) {
    for (const Shape& shape : load_shapes(expected.file)) {
      if (shape.name != expected.name) continue;
      EXPECT_EQ(
          chosen_group(choose(
              {.problem = shape.problem, .direction = expected.direction, .tf32 = expected.tf32})),
          expected.faster)
          << shape << ' ' << expected.direction << " tf32 " << expected.tf32;
    }
  }
}

TEST(Choice, FollowsTheMeasurementsWithChannelsInnermost) {
  struct Case {
    const char* name;
    Direction direction;
    DataType type;
    std::string_view faster;
  };
  const Case cases[] = {
      {"convnext_96_depthwise", Direction::kFprop, DataType::kFloat32, "generic"},
      {"convnext_768_depthwise", Direction::kDgrad, DataType::kFloat32, "generic"},
      {"convnext_192_depthwise", Direction::kWgrad, DataType::kFloat32, "generic"},
      {"efficientnet_3_depthwise", Direction::kFprop, DataType::kFloat32, "generic"},
      {"efficientnet_2_depthwise_first", Direction::kDgrad, DataType::kFloat32, "generic"},
      {"efficientnet_2_depthwise_first", Direction::kFprop, DataType::kFloat32, kAten},
      {"convnext_96_depthwise", Direction::kFprop, DataType::kFloat16, "generic"},
      {"convnext_96_depthwise", Direction::kDgrad, DataType::kFloat16, "generic"},
      {"convnext_192_depthwise", Direction::kWgrad, DataType::kFloat16, "generic"},
      {"efficientnet_2_depthwise", Direction::kFprop, DataType::kFloat16, "generic"},
      {"efficientnet_2_depthwise_first", Direction::kWgrad, DataType::kFloat16, "generic"},
      {"efficientnet_2_depthwise", Direction::kDgrad, DataType::kFloat16, "generic"},
      {"efficientnet_2_depthwise", Direction::kDgrad, DataType::kBFloat16, "generic"},
      {"efficientnet_3_depthwise", Direction::kDgrad, DataType::kBFloat16, "generic"},
      {"convnext_96_depthwise", Direction::kFprop, DataType::kBFloat16, "generic"},
      {"resnet50_2_3x3", Direction::kFprop, DataType::kFloat32, "sm90"},
      {"resnet50_5_expand", Direction::kFprop, DataType::kFloat32, kAten},
  };
  for (const Case& expected : cases) {
    for (const Shape& shape : load_shapes("networks")) {
      if (shape.name != expected.name) continue;
      Conv2dProblem problem = shape.problem;
      problem.type = expected.type;
      problem.set_dense_strides(true);
      EXPECT_EQ(chosen_group(choose({.problem = problem,
                                     .direction = expected.direction,
                                     .with_bias = expected.direction == Direction::kWgrad})),
                expected.faster)
          << shape << ' ' << expected.direction << ' ' << expected.type;
    }
  }
}

// Of layers with channels innermost, of 16 bits and in TF32, only those that were clearly faster,
// unless timed.
TEST(Choice, TakesItsKernelsForChannelsInnermostWhereTheyWereClearlyFaster) {
  struct Case {
    const char* file;
    const char* name;
    Direction direction;
    DataType type;
    std::string_view faster;
    bool with_bias = false;
  };
  constexpr DataType kBF16 = DataType::kBFloat16, kTf32 = DataType::kFloat32;
  const Case cases[] = {
      {"reference", "asym_5x7", Direction::kFprop, kBF16, "sm90"},
      {"reference", "asym_5x7", Direction::kDgrad, kBF16, "sm90"},
      {"reference", "asym_5x9", Direction::kWgrad, kBF16, "sm90"},
      {"reference", "dilated_5x9", Direction::kFprop, kBF16, "sm90"},
      {"networks", "resnet50_4_expand", Direction::kDgrad, kBF16, "aten"},
      {"networks", "resnet50_3_reduce", Direction::kWgrad, kBF16, "aten"},
      {"networks", "unet_512_halve", Direction::kFprop, kBF16, "aten"},
      {"networks", "resnet50_stem", Direction::kFprop, kBF16, "sm90"},
      {"networks", "vgg16_2", Direction::kFprop, kBF16, "sm90"},
      {"networks", "vgg16_3", Direction::kDgrad, kBF16, "sm90"},
      {"reference", "square_3x3", Direction::kDgrad, kBF16, "sm90"},
      // A sum of its own for the bias is what makes ATen slower.
      {"networks", "resnet50_2_reduce", Direction::kWgrad, kBF16, "aten"},
      {"networks", "resnet50_2_reduce", Direction::kWgrad, kBF16, "sm90", true},
      {"networks", "vgg16_6", Direction::kWgrad, kBF16, "sm90", true},
      // Small layers, which take ATen longer than their bytes and products do.
      {"networks", "resnet50_4_skip", Direction::kFprop, kBF16, "sm90"},
      {"networks", "resnet50_4_3x3", Direction::kFprop, kBF16, "sm90"},
      {"networks", "resnet50_4_3x3_first", Direction::kDgrad, kBF16, "sm90"},
      {"networks", "vgg16_9", Direction::kDgrad, kBF16, "sm90"},
      {"networks", "convnext_384_down", Direction::kFprop, kBF16, "sm90"},
      {"networks", "efficientnet_4_project", Direction::kWgrad, kBF16, "sm90", true},
      {"networks", "efficientnet_6_project", Direction::kWgrad, kBF16, "sm90", true},
      {"networks", "efficientnet_6_expand", Direction::kFprop, kBF16, "sm90"},
      {"reference", "asym_5x9", Direction::kFprop, kTf32, "sm90"},
      {"networks", "vgg16_2", Direction::kWgrad, kTf32, "sm90"},
      {"networks", "unet_256_up", Direction::kWgrad, kTf32, "sm90"},
      {"networks", "vgg16_9", Direction::kWgrad, kTf32, "sm90"},
      {"networks", "unet_32_b", Direction::kDgrad, kTf32, "aten"},
      {"networks", "resnet50_5_expand", Direction::kFprop, kTf32, "aten"},
      {"networks", "resnet50_4_reduce", Direction::kFprop, kTf32, "sm90"},
      {"networks", "resnet50_4_reduce", Direction::kDgrad, kTf32, "sm90"},
      {"networks", "efficientnet_4_project", Direction::kDgrad, kTf32, "sm90"},
      {"networks", "vgg16_1", Direction::kDgrad, kTf32, "sm90"},
      {"networks", "vgg16_1", Direction::kWgrad, kTf32, "sm90", true},
      {"networks", "convnext_384_down", Direction::kWgrad, kTf32, "sm90", true},
  };
  for (const Case& expected : cases) {
    for (const Shape& shape : load_shapes(expected.file)) {
      if (shape.name != expected.name) continue;
      Conv2dProblem problem = shape.problem;
      problem.type = expected.type;
      problem.set_dense_strides(true);
      EXPECT_EQ(chosen_group(choose({.problem = problem,
                                     .direction = expected.direction,
                                     .tf32 = true,
                                     .with_bias = expected.with_bias})),
                expected.faster)
          << shape << ' ' << expected.direction << ' ' << expected.type;
    }
  }
}

TEST(Choice, WhatGenericDeclinesGoesToAten) {
  Conv2dProblem problem = kPlain;
  problem.type = DataType::kOther;
  const Choice choice = choose({.problem = problem});
  EXPECT_EQ(chosen_group(choice), kAten);
  EXPECT_NE(text_of(choice).find("generic: declined, the element type"), std::string::npos);
}

TEST(Choice, AGridTooLargeIsAReasonToDecline) {
  const Conv2dProblem p =
      parse_shape("a n1c134217728h4w4 k134217728r1s1 stride=4,4 groups=134217728").problem;
  const Choice choice = choose({.problem = p, .direction = Direction::kDgrad});
  EXPECT_EQ(chosen_group(choice), kAten);
  EXPECT_NE(text_of(choice).find("2^31 blocks"), std::string::npos) << text_of(choice);
}

TEST(Choice, WhatIsForcedRunsOrNothingDoes) {
  for (const std::string_view forced : {"sm90", "generic", "aten"}) {
    const Choice choice = choose({.problem = kPlain, .direction = Direction::kDgrad}, forced);
    EXPECT_EQ(chosen_group(choice), forced);
  }
  const Choice of_one_family = choose({.problem = kPlain}, "halo");
  ASSERT_FALSE(of_one_family.candidates.empty());
  for (const Candidate& candidate : of_one_family.candidates) EXPECT_EQ(candidate.name(), "halo");
  Conv2dProblem problem = kPlain;
  problem.type = DataType::kOther;
  const Choice choice = choose({.problem = problem, .direction = Direction::kDgrad}, "generic");
  EXPECT_TRUE(choice.candidates.empty());
  EXPECT_NE(text_of(choice).find("implementation: none"), std::string::npos);
}

}  // namespace
}  // namespace haloconv::testing
