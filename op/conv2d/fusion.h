// What a kernel may do to the sums of fprop before it writes them.
//
//   output = activation((sum + bias) * scale + shift + residual)
#pragma once

#include <cmath>
#include <cstdint>

#include "conv2d/fast_div.h"

namespace haloconv {

enum class ActivationKind : int32_t {
  kNone,
  kRelu,
  kLeakyRelu,  // a: the slope below 0
  kClamp,      // a, b: the bounds
  kHardtanh,   // the same function, whose derivative at a bound is 0, where kClamp's is 1
  kSigmoid,
  kTanh,
  kSilu,
  kGelu,
  kGeluTanh,
  kHardswish,
  kHardsigmoid,
  kMish,
  kElu,  // a: alpha
};

struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  double a = 0, b = 0;
};

// Device memory of the problem's type; null: left out.
struct Fusion {
  const void* scale = nullptr;     // (k)
  const void* shift = nullptr;     // (k)
  const void* residual = nullptr;  // (n, k, p, q) with the output's strides
  Activation activation = {};

  bool is_none() const {
    return scale == nullptr && shift == nullptr && residual == nullptr &&
           activation.kind == ActivationKind::kNone;
  }
};

namespace activations {

// On a GPU within 2 units in the last place, without the branches of an exact division.
HALOCONV_HOST_DEVICE inline float divide(float x, float y) {
#if defined(__CUDA_ARCH__)
  return __fdividef(x, y);
#else
  return x / y;
#endif
}

// Written so that NaN stays NaN.
HALOCONV_HOST_DEVICE inline float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

HALOCONV_HOST_DEVICE inline float sigmoid(float x) { return divide(1, 1 + std::exp(-x)); }

HALOCONV_HOST_DEVICE inline float gelu(float x) {
  return 0.5F * x * (1 + std::erf(x * 0.70710678F));
}

HALOCONV_HOST_DEVICE inline float gelu_tanh(float x) {
  return 0.5F * x * (1 + std::tanh(0.79788456F * (x + 0.044715F * x * x * x)));
}

// x * tanh(log(1 + e^x)), which is x beyond 20.
HALOCONV_HOST_DEVICE inline float mish(float x) {
  const float e = std::exp(x), n = e * (e + 2);
  return x > 20 ? x : x * divide(n, n + 2);
}

}  // namespace activations

// Calls body(f) with the activation as a function f from float to float.
template <class Body>
HALOCONV_HOST_DEVICE void with_activation(const Activation& activation, Body&& body) {
  using namespace activations;
  const auto a = static_cast<float>(activation.a), b = static_cast<float>(activation.b);
  switch (activation.kind) {
    case ActivationKind::kNone:
      return body([](float x) { return x; });
    case ActivationKind::kRelu:
      return body([](float x) { return x < 0 ? 0 : x; });
    case ActivationKind::kLeakyRelu:
      return body([=](float x) { return x > 0 ? x : x * a; });
    case ActivationKind::kClamp:
    case ActivationKind::kHardtanh:
      return body([=](float x) { return clamp(x, a, b); });
    case ActivationKind::kSigmoid:
      return body([](float x) { return sigmoid(x); });
    case ActivationKind::kTanh:
      return body([](float x) { return std::tanh(x); });
    case ActivationKind::kSilu:
      return body([](float x) { return x * sigmoid(x); });
    case ActivationKind::kGelu:
      return body([](float x) { return gelu(x); });
    case ActivationKind::kGeluTanh:
      return body([](float x) { return gelu_tanh(x); });
    case ActivationKind::kHardswish:
      return body([](float x) { return x * clamp(x + 3, 0, 6) * (1.0F / 6); });
    case ActivationKind::kHardsigmoid:
      return body([](float x) { return clamp(x + 3, 0, 6) * (1.0F / 6); });
    case ActivationKind::kMish:
      return body([](float x) { return mish(x); });
    case ActivationKind::kElu:
      return body([=](float x) { return x > 0 ? x : std::expm1(x) * a; });
  }
}

}  // namespace haloconv
