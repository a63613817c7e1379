// How often blocks take turns.
#pragma once

#include <cstdint>

namespace haloconv {

// How many times the blocks that run at once take others: std::ceil(blocks / at_once), of fewer
// than 2^62. Where the compiler may not use an instruction that rounds, std::ceil is a function of
// the library, which takes five times as many.
inline double waves_of(double blocks, double at_once) {
  const double waves = blocks / at_once;
  const auto whole = static_cast<int64_t>(waves);
  return static_cast<double>(whole + (static_cast<double>(whole) < waves ? 1 : 0));
}

}  // namespace haloconv
