// What is fused where it is quick: one factor and one offset a channel, and an activation of few
// instructions, which kernels unroll over all sums of a thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/problem.h"

namespace haloconv::sm90 {

enum class QuickActivation : int32_t {
  kBounds,
  kGate,  // the value times a sigmoid, or the sigmoid alone
  kGelu,  // of 16-bit results alone
};

// x * sigmoid(y) or sigmoid(y), where y is a multiple of x, or of x and its cube.
struct Gate {
  // 2 to the power of x * (linear + cubic * x^2) is e^-y.
  float linear = 0, cubic = 0;
  bool times_value = true;
};

// Worked out on the host, so that a kernel reads the numbers as constants.
struct QuickFusion {
  bool is_quick = false;
  QuickActivation activation = QuickActivation::kBounds;
  float low = -INFINITY, high = INFINITY;  // kBounds
  Gate gate;                               // kGate; of float32 results it is SiLU's

  QuickFusion() = default;
  QuickFusion(DataType type, const void* bias, const Fusion& fusion) {
    // A bias before a scale cannot become a part of the offset: infinities would be others.
    is_quick = set_activation(fusion.activation, size_of(type) == 2) &&
               (bias == nullptr || (fusion.scale == nullptr && fusion.shift == nullptr));
  }

 private:
  // Returns whether the activation is quick.
  bool set_activation(const Activation& given, bool is_16_bit) {
    constexpr float kLog2E = 1.44269504f;
    switch (given.kind) {
      case ActivationKind::kNone:
        return true;
      case ActivationKind::kRelu:
        low = 0;
        return true;
      case ActivationKind::kClamp:
      case ActivationKind::kHardtanh:
        low = static_cast<float>(given.a);
        high = static_cast<float>(given.b);
        return true;
      case ActivationKind::kSilu:
        activation = QuickActivation::kGate;
        gate = {.linear = -kLog2E};
        return true;
      case ActivationKind::kSigmoid:
        activation = QuickActivation::kGate;
        gate = {.linear = -kLog2E, .times_value = false};
        return is_16_bit;
      case ActivationKind::kGeluTanh: {
        // 0.5 * (1 + tanh(y)) is the sigmoid of 2 * y.
        constexpr float kLinear = -kLog2E * 1.59576912f;
        activation = QuickActivation::kGate;
        gate = {.linear = kLinear, .cubic = kLinear * 0.044715f};
        return is_16_bit;
      }
      case ActivationKind::kGelu:
        activation = QuickActivation::kGelu;
        return is_16_bit;
      default:
        return false;
    }
  }
};

// 2^x and 1 / x by an instruction each; what is below the least normal number is 0.
HALOCONV_HOST_DEVICE inline float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return std::exp2(x);
#endif
}
HALOCONV_HOST_DEVICE inline float fast_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1 / x;
#endif
}

// For 16-bit results. Infinities and NaN are those of the exact function.
HALOCONV_HOST_DEVICE inline float gated(const Gate& gate, float x) {
  const float square = std::fmin(x * x, 1e30f);  // finite, since SiLU multiplies it by 0
  const float power = fast_exp2(x * (gate.linear + gate.cubic * square));
  return (gate.times_value ? x : 1.0f) * fast_reciprocal(1 + power);
}

// GELU, x times the normal distribution of x, for 16-bit results. Of |x| = t, log2 of the
// distribution of -t is nearly a polynomial, so this takes one power of 2. Its relative error is
// 4e-6 from -4 on, where float32's 1 + erf has 1e-3; no result below -6 is above 6e-9.
HALOCONV_HOST_DEVICE inline float quick_gelu(float x) {
  const float t = std::fabs(x);
  float power = -1.58545907e-06f;
  power = power * t + 5.75935387e-05f;
  power = power * t + -9.05626086e-04f;
  power = power * t + 8.43250728e-03f;
  power = power * t + -5.38455227e-02f;
  power = power * t + -4.58544952e-01f;
  power = power * t + -1.15123056e+00f;
  power = power * t + -9.99996106e-01f;
  const float tail = fast_exp2(power);
  return x * (x < 0 ? tail : 1 - tail);
}

}  // namespace haloconv::sm90
