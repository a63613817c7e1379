// Places in shared memory that go round.
#pragma once

#include <cstdint>

namespace haloconv::windows_wgrad {

// The matrix instruction's sums truncate: after so many pixels they move to the workspace, where
// they are added as float32 is.
inline constexpr int kRoundPixels = 16384;

// The place of a piece, or of a row.
struct RingPlace {
  uint32_t at;

  __device__ __forceinline__ void next(uint32_t bytes, uint32_t end, uint32_t all_bytes) {
    at += bytes;
    if (at == end) at -= all_bytes;
  }
};

// A step's number among the stages, and the parity of its barriers' phase.
struct RingStep {
  int32_t number = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int32_t stages) {
    if (++number == stages) {
      number = 0;
      parity ^= 1;
    }
  }
};

}  // namespace haloconv::windows_wgrad
