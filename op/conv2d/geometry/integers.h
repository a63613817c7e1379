// Integer arithmetic of tiles and grids.
#pragma once

#include <cstdint>

namespace haloconv {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The same of 32 bits, which are several times faster to divide. a + b must fit them too.
constexpr int32_t ceil_div_32(int32_t a, int32_t b) { return (a + b - 1) / b; }

[[noreturn]] void throw_too_wide(int64_t value);

// The value in 32 bits. Throws std::logic_error where it does not fit: planners decline such
// problems before they count in 32 bits.
inline int32_t narrow(int64_t value) {
  const auto narrowed = static_cast<int32_t>(value);
  if (narrowed != value) throw_too_wide(value);
  return narrowed;
}

}  // namespace haloconv
