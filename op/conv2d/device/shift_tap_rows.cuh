// For kernels that multiply a source row with all rows of taps at once and keep the sums of as many
// destination rows in registers.
#pragma once

#include <cstdint>

namespace haloconv {

// Goes one row down: each row of taps now meets the destination row that the one before it met.
// `sums` has kRowSums for each of kRowTaps rows of taps, of several matrix instructions. Those of
// first_tap_row begin anew.
template <int kRowTaps, int kRowSums, int kInstructions, int kSums>
__device__ __forceinline__ void shift_tap_rows(float (&sums)[kInstructions][kSums],
                                               int32_t first_tap_row) {
  static_assert(kSums == kRowTaps * kRowSums);
#pragma unroll
  for (auto& instruction : sums) {
#pragma unroll
    for (int tap_row = kRowTaps - 1; tap_row >= 0; --tap_row) {
#pragma unroll
      for (int i = 0; i < kRowSums; ++i) {
        const float above = tap_row > 0 ? instruction[(tap_row - 1) * kRowSums + i] : 0;
        instruction[tap_row * kRowSums + i] = tap_row == first_tap_row ? 0 : above;
      }
    }
  }
}

}  // namespace haloconv
