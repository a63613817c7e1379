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
// Ones, the bias's sums and the barriers. Zeros may lie behind the ring.
inline constexpr int64_t kSharedBesideRing = kOnesBytes + kMaxRows * 4 + 2 * kMaxStages * 8;
inline constexpr int64_t kMaxRingBytes = kMaxSharedBytes - kSharedBesideRing;

}  // namespace haloconv::sm90::channels_last_wgrad
