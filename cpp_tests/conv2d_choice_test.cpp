#include "conv2d/choice.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

const Conv2dProblem kPlain = parse_shape("a n8c32h64w64 k32r3s3").problem;

std::string text_of(const Choice& choice) {
  std::ostringstream text;
  text << choice;
  return text.str();
}

TEST(Choice, NamesAreFoundAgain) {
  for (const Implementation implementation : kAllImplementations) {
    EXPECT_EQ(implementation_of(name_of(implementation)), implementation);
  }
  EXPECT_EQ(implementation_of("cudnn"), std::nullopt);
}

TEST(Choice, ListsEveryImplementationInOrder) {
  const Choice choice = choose(kPlain, Direction::kFprop, Device{}, Settings{});
  ASSERT_EQ(choice.candidates.size(), std::size(kAllImplementations));
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    EXPECT_EQ(choice.candidates[i].implementation, kAllImplementations[i]);
    EXPECT_EQ(choice.candidates[i].declined, "") << name_of(kAllImplementations[i]);
  }
}

TEST(Choice, TakesTheSmallestEstimate) {
  for (const Shape& shape : load_shapes("layers")) {
    for (const bool tf32 : {true, false}) {
      const Choice choice =
          choose(shape.problem, Direction::kWgrad, Device{}, {.tf32 = tf32}, true);
      ASSERT_TRUE(choice.chosen);
      for (const Candidate& candidate : choice.candidates) {
        if (!candidate.declined.empty()) continue;
        const auto& chosen = choice.candidates[static_cast<size_t>(*choice.chosen)];
        EXPECT_LE(chosen.estimated_ms, candidate.estimated_ms) << shape;
      }
    }
  }
}

TEST(Choice, TakesTheFastestThatWasTimedAndAtenNearADraw) {
  constexpr auto kSm90 = Implementation::kSm90, kGeneric = Implementation::kGeneric,
                 kAten = Implementation::kAten;
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fastest_of({{kSm90, 1.0}, {kSm90, 0.99}, {kAten, 1.2}}), 1);
  EXPECT_EQ(fastest_of({{kSm90, 0.99}, {kAten, 1.0}, {kGeneric, 0.985}}), 1);
  EXPECT_EQ(fastest_of({{kAten, 1.0}, {kSm90, 0.97}}), 1);
  EXPECT_EQ(fastest_of({{kSm90, kFailed}, {kGeneric, 3.0}, {kAten, kFailed}}), 1);
  EXPECT_EQ(fastest_of({{kSm90, kFailed}, {kAten, kFailed}}), std::nullopt);
  EXPECT_EQ(fastest_of({}), std::nullopt);
}

// Cases far from a draw in the sweep that benchmarks/NOTES.md records.
TEST(Choice, FollowsTheMeasurements) {
  constexpr auto kSm90 = Implementation::kSm90, kGeneric = Implementation::kGeneric,
                 kAten = Implementation::kAten;
  struct Case {
    const char* file;
    const char* name;
    Direction direction;
    bool tf32;
    Implementation faster;
  };
  const Case cases[] = {
      {"reference", "square_3x3", Direction::kFprop, true, kSm90},
      {"reference", "asym_5x7", Direction::kFprop, true, kSm90},
      {"reference", "dilated_5x9", Direction::kFprop, true, kSm90},
      {"reference", "asym_5x9", Direction::kDgrad, true, kSm90},
      {"reference", "square_3x3", Direction::kFprop, false, kSm90},
      {"reference", "dilated_5x9", Direction::kDgrad, true, kSm90},
      {"reference", "dilated_5x9", Direction::kDgrad, false, kSm90},
      {"reference", "asym_5x9", Direction::kFprop, false, kSm90},
      {"reference", "asym_5x9", Direction::kDgrad, false, kSm90},
      {"reference", "square_3x3", Direction::kWgrad, true, kSm90},
      {"reference", "asym_5x7", Direction::kWgrad, true, kSm90},
      {"reference", "dilated_5x9", Direction::kWgrad, true, kSm90},
      {"reference", "asym_5x9", Direction::kWgrad, true, kSm90},
      {"networks", "unet_256_b", Direction::kWgrad, false, kSm90},
      {"networks", "unet_64_up", Direction::kWgrad, false, kAten},
      {"networks", "unet_64_up", Direction::kFprop, false, kSm90},
      {"networks", "resnet50_4_skip", Direction::kDgrad, false, kAten},
      {"layers", "depthwise_3x3", Direction::kFprop, true, kGeneric},
      {"layers", "depthwise_3x3", Direction::kDgrad, true, kGeneric},
      {"layers", "depthwise_small", Direction::kWgrad, true, kGeneric},
      {"layers", "resnext_2", Direction::kDgrad, false, kGeneric},
      {"layers", "resnext_2", Direction::kFprop, true, kAten},
  };
  for (const Case& expected : cases) {
    for (const Shape& shape : load_shapes(expected.file)) {
      if (shape.name != expected.name) continue;
      EXPECT_EQ(choose(shape.problem, expected.direction, Device{}, {.tf32 = expected.tf32}).chosen,
                expected.faster)
          << shape << ' ' << expected.direction << " tf32 " << expected.tf32;
    }
  }
}

TEST(Choice, FollowsTheMeasurementsWithChannelsInnermost) {
  constexpr auto kGeneric = Implementation::kGeneric, kAten = Implementation::kAten;
  struct Case {
    const char* name;
    Direction direction;
    DataType type;
    Implementation faster;
  };
  const Case cases[] = {
      {"convnext_96_depthwise", Direction::kFprop, DataType::kFloat32, kGeneric},
      {"convnext_768_depthwise", Direction::kDgrad, DataType::kFloat32, kGeneric},
      {"convnext_192_depthwise", Direction::kWgrad, DataType::kFloat32, kGeneric},
      {"efficientnet_3_depthwise", Direction::kFprop, DataType::kFloat32, kGeneric},
      {"efficientnet_2_depthwise_first", Direction::kDgrad, DataType::kFloat32, kAten},
      {"efficientnet_2_depthwise_first", Direction::kFprop, DataType::kFloat32, kAten},
      {"convnext_96_depthwise", Direction::kFprop, DataType::kFloat16, kGeneric},
      {"convnext_96_depthwise", Direction::kDgrad, DataType::kFloat16, kGeneric},
      {"convnext_192_depthwise", Direction::kWgrad, DataType::kFloat16, kGeneric},
      {"efficientnet_2_depthwise", Direction::kFprop, DataType::kFloat16, kAten},
      {"efficientnet_2_depthwise_first", Direction::kWgrad, DataType::kFloat16, kGeneric},
      {"efficientnet_1_depthwise", Direction::kFprop, DataType::kFloat16, kAten},
      {"efficientnet_2_depthwise", Direction::kDgrad, DataType::kFloat16, kAten},
      {"efficientnet_2_depthwise", Direction::kDgrad, DataType::kBFloat16, kGeneric},
      {"efficientnet_3_depthwise", Direction::kDgrad, DataType::kBFloat16, kGeneric},
      {"convnext_96_depthwise", Direction::kFprop, DataType::kBFloat16, kGeneric},
      {"resnet50_2_3x3", Direction::kFprop, DataType::kFloat32, kAten},
  };
  for (const Case& expected : cases) {
    for (const Shape& shape : load_shapes("networks")) {
      if (shape.name != expected.name) continue;
      Conv2dProblem problem = shape.problem;
      problem.type = expected.type;
      problem.set_dense_strides(true);
      EXPECT_EQ(choose(problem, expected.direction, Device{}, Settings{}, true).chosen,
                expected.faster)
          << shape << ' ' << expected.direction << ' ' << expected.type;
    }
  }
}

TEST(Choice, WhatGenericDeclinesGoesToAten) {
  Conv2dProblem problem = kPlain;
  problem.type = DataType::kOther;
  const Choice choice = choose(problem, Direction::kFprop, Device{}, Settings{});
  EXPECT_EQ(choice.chosen, Implementation::kAten);
  EXPECT_NE(text_of(choice).find("generic: declined, the element type"), std::string::npos);
}

TEST(Choice, AGridTooLargeIsAReasonToDecline) {
  const Conv2dProblem p =
      parse_shape("a n1c134217728h4w4 k134217728r1s1 stride=4,4 groups=134217728").problem;
  const Choice choice = choose(p, Direction::kDgrad, Device{}, Settings{});
  EXPECT_EQ(choice.chosen, Implementation::kAten);
  EXPECT_NE(text_of(choice).find("2^31 blocks"), std::string::npos) << text_of(choice);
}

TEST(Choice, ForcedImplementationRunsOrNoneDoes) {
  for (const Implementation forced : kAllImplementations) {
    const Choice choice = choose(kPlain, Direction::kDgrad, Device{}, {.forced = forced});
    EXPECT_EQ(choice.chosen, forced);
  }
  Conv2dProblem problem = kPlain;
  problem.type = DataType::kOther;
  const Choice choice =
      choose(problem, Direction::kDgrad, Device{}, {.forced = Implementation::kGeneric});
  EXPECT_EQ(choice.chosen, std::nullopt);
  EXPECT_NE(text_of(choice).find("implementation: none"), std::string::npos);
}

}  // namespace
}  // namespace haloconv::testing
