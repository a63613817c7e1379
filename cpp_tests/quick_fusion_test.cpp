// The activations of quick_fusion.h, on the host, against their definitions.
#include "conv2d/device/quick_fusion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace haloconv::testing {
namespace {

using Kind = ActivationKind;
using sm90::QuickActivation;
using sm90::QuickFusion;

constexpr Kind kOf16Bits[] = {Kind::kSilu, Kind::kSigmoid, Kind::kGelu, Kind::kGeluTanh};

double definition(Kind kind, double x) {
  // 0.5 * (1 + tanh(y)) without its loss beside 1.
  const double y = 2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  switch (kind) {
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::kSilu:
      return x / (1 + std::exp(-x));
    case Kind::kGelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    default:
      return x / (1 + std::exp(-y));
  }
}

QuickFusion quick(Kind kind, DataType type = DataType::kBFloat16) {
  return {type, nullptr, {.activation = {kind}}};
}

float apply(Kind kind, float x) {
  const QuickFusion fusion = quick(kind);
  return fusion.activation == QuickActivation::kGelu ? sm90::quick_gelu(x)
                                                     : sm90::gated(fusion.gate, x);
}

// Rounding to float16 has a relative error of up to 4.9e-4, and of numbers near zero one of 3e-8.
TEST(QuickFusion, ActivationsAreTheirDefinitionsUpToTheRoundingOf16Bits) {
  for (const Kind kind : kOf16Bits) {
    for (int i = -6000; i <= 6000; ++i) {
      const float x = static_cast<float>(i) / 64;
      const double exact = definition(kind, x);
      EXPECT_NEAR(apply(kind, x), exact, 8e-6 * std::abs(exact) + 1e-9)
          << "kind " << static_cast<int>(kind) << " of " << x;
    }
  }
}

TEST(QuickFusion, InfinitiesAndNanAreThoseOfTheExactActivations) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Kind kind : kOf16Bits) {
    SCOPED_TRACE(static_cast<int>(kind));
    const bool is_sigmoid = kind == Kind::kSigmoid;
    EXPECT_TRUE(std::isnan(apply(kind, std::nanf(""))));
    EXPECT_EQ(apply(kind, kInfinity), is_sigmoid ? 1 : kInfinity);
    if (is_sigmoid) {
      EXPECT_EQ(apply(kind, -kInfinity), 0);
    } else {
      EXPECT_TRUE(std::isnan(apply(kind, -kInfinity)));  // -inf * 0, as in ATen
    }
    for (const float large : {1e10f, 1e20f, 3e38f}) {
      EXPECT_EQ(apply(kind, large), is_sigmoid ? 1 : large);
      EXPECT_EQ(apply(kind, -large), 0);
    }
  }
}

TEST(QuickFusion, Float32HasOnlyExactActivations) {
  for (const Kind kind : {Kind::kNone, Kind::kRelu, Kind::kClamp, Kind::kHardtanh, Kind::kSilu}) {
    EXPECT_TRUE(quick(kind).is_quick);
    EXPECT_TRUE(quick(kind, DataType::kFloat32).is_quick);
  }
  for (const Kind kind : {Kind::kSigmoid, Kind::kGelu, Kind::kGeluTanh}) {
    EXPECT_TRUE(quick(kind).is_quick);
    EXPECT_TRUE(quick(kind, DataType::kFloat16).is_quick);
    EXPECT_FALSE(quick(kind, DataType::kFloat32).is_quick);
  }
  for (const Kind kind : {Kind::kTanh, Kind::kMish, Kind::kElu, Kind::kLeakyRelu}) {
    EXPECT_FALSE(quick(kind).is_quick);
  }
}

TEST(QuickFusion, ABiasBeforeAScaleIsNotQuick) {
  const float value = 1;
  const Fusion scaled{.scale = &value, .activation = {Kind::kGelu}};
  EXPECT_TRUE(QuickFusion(DataType::kFloat16, nullptr, scaled).is_quick);
  EXPECT_FALSE(QuickFusion(DataType::kFloat16, &value, scaled).is_quick);
}

}  // namespace
}  // namespace haloconv::testing
