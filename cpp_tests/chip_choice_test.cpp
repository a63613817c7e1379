// What is chosen on chips other than the one that the models were measured on.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/aten_model.h"
#include "conv2d/choice.h"
#include "conv2d/rates.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad, Direction::kWgrad};
constexpr std::string_view kTensorCores = "sm90";  // the group for compute capability 9.0

std::vector<Shape> shapes_of_networks() {
  std::vector<Shape> shapes = load_shapes("reference");
  for (const Shape& shape : load_shapes("networks")) shapes.push_back(shape);
  return shapes;
}

// The group of the chosen family, or "aten".
std::string_view chosen_group(const Choice& choice) {
  const Candidate& chosen = choice.candidates.front();
  return chosen.is_aten() ? kAten : chosen.family->group;
}

bool is_depthwise(const Conv2dProblem& p) { return p.groups > 1 && p.group_c() == 1; }

bool is_hopper(const Chip& chip) { return chip.compute_capability == 90; }

class ChipChoice : public ::testing::TestWithParam<std::string> {
 protected:
  const Chip chip_ = chip_of(GetParam());
};

// Each family for compute capability 9.0 says which one the chip has.
TEST_P(ChipChoice, HopperKernelsDeclineElsewhereWithTheReason) {
  for (const Shape& shape : load_shapes("reference")) {
    for (const Direction direction : kDirections) {
      const Choice choice =
          choose({.problem = shape.problem, .direction = direction, .chip = chip_});
      const std::string_view chosen = chosen_group(choice);
      EXPECT_TRUE(is_hopper(chip_) ? chosen == kTensorCores : chosen == kAten || chosen == "sm80")
          << shape << ' ' << direction << '\n'
          << choice;
      for (const Reply& reply : choice.replies) {
        if (reply.family == nullptr || reply.family->group != kTensorCores) continue;
        const std::string& declined = reply.answer.declined;
        // That a family does not compute the direction is said before the chip is looked at.
        if (is_hopper(chip_) || declined.find("weight gradients") != std::string::npos) continue;
        EXPECT_NE(declined.find(compute_capability_text(chip_.compute_capability)),
                  std::string::npos)
            << choice;
      }
    }
  }
}

// No family, nor ATen, is credited with more than the chip has.
TEST_P(ChipChoice, NoEstimateIsBelowWhatBytesAndArithmeticNeed) {
  constexpr double kWinogradPart = 0.25;
  for (const Shape& shape : shapes_of_networks()) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kBFloat16}) {
      for (const bool tf32 : {true, false}) {
        if (type != DataType::kFloat32 && !tf32) continue;
        Conv2dProblem p = shape.problem;
        p.type = type;
        for (const Direction direction : kDirections) {
          const Choice choice =
              choose({.problem = p, .direction = direction, .chip = chip_, .tf32 = tf32});
          for (const Reply& reply : choice.replies) {
            if (!reply.answer.declined.empty()) continue;
            const bool may_be_winograd = reply.family == nullptr && !tf32 && p.r == 3 && p.s == 3;
            EXPECT_GE(reply.estimated_ms,
                      least_ms(p, chip_, tf32, may_be_winograd ? kWinogradPart : 1))
                << p << ' ' << direction << " tf32 " << tf32 << ' ' << reply.name();
          }
        }
      }
    }
  }
}

// Kernels without tensor cores do not take layers from those that use them, cuDNN's or ours.
TEST_P(ChipChoice, PlainKernelsTakeNoDenseTf32) {
  for (const Shape& shape : shapes_of_networks()) {
    const Conv2dProblem& p = shape.problem;
    if (p.groups > 1 || std::min(p.c, p.k) < 16) continue;
    for (const Direction direction : kDirections) {
      const Choice choice = choose({.problem = p, .direction = direction, .chip = chip_});
      EXPECT_NE(chosen_group(choice), "generic") << shape << ' ' << direction << '\n' << choice;
    }
  }
}

// ATen's own kernels for them are slow everywhere.
TEST_P(ChipChoice, DepthwiseKernelsTakeDepthwiseLayers) {
  for (const Shape& shape : load_shapes("networks")) {
    const Conv2dProblem& p = shape.problem;
    if (!is_depthwise(p) || p.stride_h > 1) continue;
    for (const Direction direction : kDirections) {
      const Choice choice = choose({.problem = p, .direction = direction, .chip = chip_});
      EXPECT_EQ(choice.candidates.front().name(), "depthwise") << shape << ' ' << direction << '\n'
                                                               << choice;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Known, ChipChoice,
                         ::testing::Values("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB",
                                           "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090",
                                           "NVIDIA L4", "NVIDIA L40S", "NVIDIA GeForce RTX 5090",
                                           "NVIDIA B200", "NVIDIA H100 PCIe",
                                           "NVIDIA H100 80GB HBM3", "NVIDIA H200"),
                         [](const auto& info) {
                           std::string name = info.param.substr(std::string("NVIDIA ").size());
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// A time of PyTorch's convolution by cuDNN 9.19 on an H100, weight gradients with the bias's.
struct AtenTime {
  const char* problem;
  DataType type;
  bool channels_last;
  Direction direction;
  double us;
};

TEST(ChipAtenModel, ExpectsAboutWhatWasTimed) {
  constexpr auto kFloat32 = DataType::kFloat32, kBFloat16 = DataType::kBFloat16;
  constexpr auto kFprop = Direction::kFprop, kDgrad = Direction::kDgrad, kWgrad = Direction::kWgrad;
  // 1x1 filters; channels in no whole 16 bytes; padding on one side.
  const char* const fcn = "n8c21h256w256 k21r16s16 stride=8,8 pad=4,4,4,4";
  const char* const fcn_depthwise = "n8c21h128w128 k21r4s4 stride=2,2 pad=1,1,1,1 groups=21";
  const char* const mamba = "n8c5120h1w2048 k5120r1s4 pad=0,0,3,0 groups=5120";
  const AtenTime times[] = {
      {"n64c64h56w56 k256r1s1", kFloat32, false, kWgrad, 192.6},
      {"n64c256h56w56 k64r1s1", kFloat32, false, kWgrad, 134.2},
      {"n64c512h7w7 k2048r1s1", kFloat32, false, kWgrad, 103.9},
      {"n64c192h7w7 k1152r1s1", kFloat32, false, kWgrad, 62.4},
      {"n64c112h14w14 k672r1s1", kFloat32, false, kWgrad, 66.1},
      {"n64c1152h7w7 k320r1s1", kFloat32, false, kFprop, 34.0},
      {"n64c512h7w7 k2048r1s1", kFloat32, false, kDgrad, 58.5},
      {fcn, kBFloat16, true, kFprop, 101},
      {fcn, kBFloat16, true, kWgrad, 120},
      {fcn, kBFloat16, false, kFprop, 112},
      {fcn_depthwise, kBFloat16, true, kFprop, 30},
      {fcn_depthwise, kBFloat16, true, kDgrad, 70},
      {fcn_depthwise, kBFloat16, true, kWgrad, 191},
      {mamba, kBFloat16, false, kFprop, 842},
      {mamba, kFloat32, false, kFprop, 847},
      {"n8c64h128w128 k128r3s3 stride=2,2 pad=0,1,0,1", kBFloat16, true, kFprop, 46.4},
      {"n8c64h128w128 k128r3s3 stride=2,2 pad=0,1,0,1", kBFloat16, true, kWgrad, 56.1},
      {"n8c64h128w128 k128r3s3 stride=2,2 pad=0,1,0,1", kFloat32, false, kDgrad, 128},
  };
  const Chip h100 = chip_of("NVIDIA H100 80GB HBM3");
  for (const AtenTime& time : times) {
    Conv2dProblem p = parse_shape(std::string("a ") + time.problem).problem;
    p.type = time.type;
    p.set_dense_strides(time.channels_last);
    const bool with_bias = time.direction == kWgrad;
    const double part = 1e3 * estimate_aten_ms(p, time.direction, h100, true, with_bias) / time.us;
    EXPECT_GT(part, 0.65) << p << ' ' << time.direction;
    EXPECT_LT(part, 1.35) << p << ' ' << time.direction;
  }
}

// What bounds a problem says by how much another chip is slower.
TEST(ChipAtenModel, ScalesByWhatBounds) {
  const auto ms = [](const char* problem, const Chip& chip) {
    return estimate_aten_ms(parse_shape(std::string("a ") + problem).problem, Direction::kFprop,
                            chip, true);
  };
  const char* const bytes = "n64c64h512w512 k64r1s1";
  const char* const arithmetic = "n64c2048h64w64 k2048r3s3 pad=1,1,1,1";
  Chip chip = h200();
  chip.source = ChipSource::kTable;
  chip.memory_rate /= 2;
  EXPECT_GT(ms(bytes, chip), 1.8 * ms(bytes, h200()));
  EXPECT_LT(ms(arithmetic, chip), 1.1 * ms(arithmetic, h200()));
  chip = h200();
  chip.source = ChipSource::kTable;
  chip.multiply_adds.tf32_matrix /= 4;
  EXPECT_LT(ms(bytes, chip), 1.5 * ms(bytes, h200()));
  EXPECT_GT(ms(arithmetic, chip), 3 * ms(arithmetic, h200()));
}

// An eighth of them: scaled by ordinary multiply-adds it was taken to be as fast.
TEST(ChipAtenModel, AnRtx4090HasNotAnH200sTensorCores) {
  const Chip rtx = chip_of("NVIDIA GeForce RTX 4090");
  for (const Shape& shape : load_shapes("reference")) {
    if (shape.problem.r * shape.problem.s == 9) continue;  // bound by bytes
    EXPECT_GT(estimate_aten_ms(shape.problem, Direction::kFprop, rtx, true),
              3 * estimate_aten_ms(shape.problem, Direction::kFprop, h200(), true))
        << shape;
  }
}

}  // namespace
}  // namespace haloconv::testing
