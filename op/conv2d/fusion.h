// What a kernel may do to the sums of fprop before it writes them.
//
//   output = activation((sum + bias) * scale + shift + residual)
#pragma once

#include <cstdint>

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
  const void* residual = nullptr;  // (n, k, p, q) with the output's strides, aligned to 16 bytes
  Activation activation;
};

}  // namespace haloconv
