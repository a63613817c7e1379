// Division of non-negative 32-bit integers by a divisor known on the host.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define HALOCONV_HOST_DEVICE __host__ __device__
#else
#define HALOCONV_HOST_DEVICE
#endif

namespace haloconv {

// n / divisor = (n * multiplier) >> (32 + shift), exact for 0 <= n < 2^31 and 1 <= divisor < 2^31:
// multiplier = ceil(2^(31 + l) / divisor) with l = ceil(log2(divisor)): off by less than 2^-31 of
// itself.
// Granlund & Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
struct FastDiv {
  int32_t divisor = 1;
  uint32_t multiplier = 0;
  int32_t shift = 0;

  FastDiv() = default;
  // Throws std::logic_error for any other divisor.
  explicit FastDiv(int64_t d) : divisor(static_cast<int32_t>(d)) {
    if (d < 1 || d > INT32_MAX) throw_bad_divisor(d);
    const int log2 = std::bit_width(static_cast<uint64_t>(d - 1));  // rounded up
    if (log2 == 0) return;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + log2)) + d - 1) / d);
    shift = log2 - 1;
  }

  HALOCONV_HOST_DEVICE int32_t quotient(int32_t n) const {
    if (divisor == 1) return n;
    const uint64_t product = static_cast<uint64_t>(static_cast<uint32_t>(n)) * multiplier;
    return static_cast<int32_t>(static_cast<uint32_t>(product >> 32) >> shift);
  }

 private:
  [[noreturn]] static void throw_bad_divisor(int64_t divisor);
};

}  // namespace haloconv
