// The activations that kernels compute, on the host, against their definitions.
#include "conv2d/epilogue/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace haloconv::testing {
namespace {

using Kind = ActivationKind;

struct Case {
  Activation activation;
  std::function<double(double)> definition;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Case> cases() {
  return {
      {{Kind::kNone}, [](double x) { return x; }},
      {{Kind::kRelu}, [](double x) { return std::max(x, 0.0); }},
      {{Kind::kLeakyRelu, 0.25}, [](double x) { return x > 0 ? x : 0.25 * x; }},
      {{Kind::kLeakyRelu, -0.5}, [](double x) { return x > 0 ? x : -0.5 * x; }},
      {{Kind::kClamp, -3, 5}, [](double x) { return std::clamp(x, -3.0, 5.0); }},
      {{Kind::kClamp, -std::numeric_limits<double>::infinity(), 2},
       [](double x) { return std::min(x, 2.0); }},
      {{Kind::kHardtanh, -1, 1}, [](double x) { return std::clamp(x, -1.0, 1.0); }},
      {{Kind::kSigmoid}, sigmoid},
      {{Kind::kTanh}, [](double x) { return std::tanh(x); }},
      {{Kind::kSilu}, [](double x) { return x * sigmoid(x); }},
      {{Kind::kGelu}, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
      {{Kind::kGeluTanh},
       [](double x) {
         return x * sigmoid(2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x));
       }},
      {{Kind::kHardswish}, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {{Kind::kHardsigmoid}, [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {{Kind::kMish}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {{Kind::kElu, 1}, [](double x) { return x > 0 ? x : std::expm1(x); }},
      {{Kind::kElu, -0.5}, [](double x) { return x > 0 ? x : -0.5 * std::expm1(x); }},
  };
}

template <class Real>
Real apply(const Activation& activation, Real x) {
  Real y = 0;
  with_activation<Real>(activation, [&](auto function) { y = function(x); });
  return y;
}

template <class Real>
class FusionIn : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FusionIn, Reals, );

TYPED_TEST(FusionIn, ActivationsAreTheirDefinitions) {
  constexpr double kEps = std::numeric_limits<TypeParam>::epsilon();
  for (const auto& [activation, definition] : cases()) {
    for (int i = -6000; i <= 6000; ++i) {
      const TypeParam x = static_cast<TypeParam>(i) / 64;  // to 93.75: e^x passes float32
      const double exact = definition(x);
      // 1 + tanh and 1 + erf lose what is small beside 1.
      const double scale = std::max({1.0, std::abs(exact), std::abs(double{x})});
      EXPECT_NEAR(apply(activation, x), exact, 4 * kEps * scale)
          << "kind " << static_cast<int>(activation.kind) << " of " << x;
    }
  }
}

TYPED_TEST(FusionIn, ActivationsKeepNan) {
  for (const Case& each : cases()) {
    EXPECT_TRUE(std::isnan(apply<TypeParam>(each.activation, std::nan(""))))
        << "kind " << static_cast<int>(each.activation.kind);
  }
}

TYPED_TEST(FusionIn, ActivationsOfInfinity) {
  constexpr TypeParam kInfinity = std::numeric_limits<TypeParam>::infinity();
  for (const auto& [activation, definition] : cases()) {
    const Kind kind = activation.kind;
    EXPECT_EQ(apply(activation, kInfinity), static_cast<TypeParam>(definition(kInfinity)))
        << "kind " << static_cast<int>(kind);
    const TypeParam low = apply(activation, -kInfinity);
    if (std::isnan(definition(-kInfinity)) || kind == Kind::kGelu || kind == Kind::kGeluTanh) {
      EXPECT_TRUE(std::isnan(low)) << "kind " << static_cast<int>(kind);  // -inf * 0, as in ATen
    } else {
      EXPECT_EQ(low, static_cast<TypeParam>(definition(-kInfinity)))
          << "kind " << static_cast<int>(kind);
    }
  }
}

TEST(Fusion, NoneIsNone) {
  EXPECT_TRUE(Fusion{}.is_none());
  const float value = 0;
  EXPECT_FALSE(Fusion{.scale = &value}.is_none());
  EXPECT_FALSE(Fusion{.shift = &value}.is_none());
  EXPECT_FALSE(Fusion{.residual = &value}.is_none());
  EXPECT_FALSE(Fusion{.activation = {Kind::kRelu}}.is_none());
}

}  // namespace
}  // namespace haloconv::testing
