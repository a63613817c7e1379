// What the planners know of a device.
#pragma once

#include "conv2d/problem.h"

namespace haloconv {

struct Device {
  int compute_capability = 90;  // major * 10 + minor
  int multiprocessors = 132;
};

// Multiply-adds per cycle of one multiprocessor, without tensor cores.
inline double fma_rate(DataType type, const Device& device) {
  const int cc = device.compute_capability;
  if (type == DataType::kFloat64) return cc == 90 || cc == 100 ? 64 : cc == 80 ? 32 : 2;
  return cc == 75 || cc == 80 ? 64 : 128;
}

}  // namespace haloconv
