// What a kernel may do to the sums of fprop before it writes them.
//
//   output = activation((sum + bias) * scale + shift + residual)
#pragma once

#include <cmath>
#include <cstdint>

#include "conv2d/geometry/fast_div.h"

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

HALOCONV_HOST_DEVICE inline double divide(double x, double y) { return x / y; }

// Written so that NaN stays NaN.
template <class Real>
HALOCONV_HOST_DEVICE Real clamp(Real x, Real low, Real high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

template <class Real>
HALOCONV_HOST_DEVICE Real sigmoid(Real x) {
  return divide(Real(1), 1 + std::exp(-x));
}

template <class Real>
HALOCONV_HOST_DEVICE Real gelu(Real x) {
  return Real(0.5) * x * (1 + std::erf(x * Real(0.70710678118654752)));
}

template <class Real>
HALOCONV_HOST_DEVICE Real gelu_tanh(Real x) {
  return Real(0.5) * x *
         (1 + std::tanh(Real(0.79788456080286536) * (x + Real(0.044715) * x * x * x)));
}

// x * tanh(log(1 + e^x)), which is x beyond 20.
template <class Real>
HALOCONV_HOST_DEVICE Real mish(Real x) {
  const Real e = std::exp(x), n = e * (e + 2);
  return x > 20 ? x : x * divide(n, n + 2);
}

}  // namespace activations

// Calls body(f) with the activation as a function f from Real, float or double, to Real.
template <class Real = float, class Body>
HALOCONV_HOST_DEVICE void with_activation(const Activation& activation, Body&& body) {
  using namespace activations;
  const auto a = static_cast<Real>(activation.a), b = static_cast<Real>(activation.b);
  switch (activation.kind) {
    case ActivationKind::kNone:
      return body([](Real x) { return x; });
    case ActivationKind::kRelu:
      return body([](Real x) { return x < 0 ? 0 : x; });
    case ActivationKind::kLeakyRelu:
      return body([=](Real x) { return x > 0 ? x : x * a; });
    case ActivationKind::kClamp:
    case ActivationKind::kHardtanh:
      return body([=](Real x) { return clamp(x, a, b); });
    case ActivationKind::kSigmoid:
      return body([](Real x) { return sigmoid(x); });
    case ActivationKind::kTanh:
      return body([](Real x) { return std::tanh(x); });
    case ActivationKind::kSilu:
      return body([](Real x) { return x * sigmoid(x); });
    case ActivationKind::kGelu:
      return body([](Real x) { return gelu(x); });
    case ActivationKind::kGeluTanh:
      return body([](Real x) { return gelu_tanh(x); });
    case ActivationKind::kHardswish:
      return body([](Real x) { return x * clamp<Real>(x + 3, 0, 6) * Real(1.0 / 6); });
    case ActivationKind::kHardsigmoid:
      return body([](Real x) { return clamp<Real>(x + 3, 0, 6) * Real(1.0 / 6); });
    case ActivationKind::kMish:
      return body([](Real x) { return mish(x); });
    case ActivationKind::kElu:
      return body([=](Real x) { return x > 0 ? x : std::expm1(x) * a; });
  }
}

}  // namespace haloconv
