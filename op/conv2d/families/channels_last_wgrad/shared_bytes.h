// The size of what shared_memory.cuh lays out.
#pragma once

#include <cstdint>

namespace haloconv::sm90::channels_last_wgrad {

inline constexpr int32_t kMaxStages = 12;
// A multiprocessor has 228 KB, of which each block takes one beside its own. The other is for a
// block of the kernel that adds partial sums, so that it need not wait for this one's end.
inline constexpr int64_t kMaxSharedBytes = 226 * 1024;
inline constexpr int32_t kRingAlignment = 1024;
inline constexpr int32_t kMaxRows = 192;  // of a tile
inline constexpr int32_t kBiasWarps = 3;
// Of ones, which products sum the bias with: eight pixels of eight columns.
inline constexpr int32_t kOnesBytes = 128;
// Ones, the bias's sums of a tile's rows, the barriers and spoiled steps. Zeros may lie behind the
// ring.
constexpr int64_t shared_beside_ring(int32_t rows) {
  return kOnesBytes + rows * 4 + 2 * kMaxStages * 8 + 16;
}
inline constexpr int64_t kMaxRingBytes = kMaxSharedBytes - shared_beside_ring(kMaxRows);

}  // namespace haloconv::sm90::channels_last_wgrad
