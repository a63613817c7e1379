// How a warp finds the marks that are set (nonfinite_marks.h).
#pragma once

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/nonfinite_marks.h"

namespace haloconv::halo {

// As many marks as a warp reads at once, four words by each lane.
class WarpMarks {
 public:
  static constexpr uint32_t kWords = 4, kOfLane = 32 * kWords, kCount = 32 * kOfLane;
  static_assert(kMarkWords % kWords == 0);

  // From those of the math warp's sums `first` on.
  __device__ __forceinline__ WarpMarks(const Arguments& args, uint64_t first)
      : lane_(threadIdx.x % 32) {
    const uint4 words =
        *reinterpret_cast<const uint4*>(args.marks + mark_of(first + lane_ * kOfLane).word);
    words_[0] = words.x;
    words_[1] = words.y;
    words_[2] = words.z;
    words_[3] = words.w;
  }

  // Counts those that are set, of the first `existing` ones: later bits are those of other sums.
  __device__ __forceinline__ uint32_t count(uint64_t existing) {
    const auto own = static_cast<int32_t>(min(existing, uint64_t{kCount})) -
                     static_cast<int32_t>(lane_ * kOfLane);
    uint32_t set = 0;
#pragma unroll
    for (int i = 0; i < static_cast<int>(kWords); ++i) {
      const int32_t left = own - i * 32;
      words_[i] &= left >= 32 ? ~0u : left > 0 ? (1u << left) - 1 : 0;
      set += __popc(words_[i]);
    }
    up_to_ = set;
#pragma unroll
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
      const uint32_t before = __shfl_up_sync(~0u, up_to_, distance);
      if (lane_ >= distance) up_to_ += before;
    }
    before_ = up_to_ - set;
    return __shfl_sync(~0u, up_to_, 31);
  }

  // Where the set one is that so many are before.
  __device__ __forceinline__ uint32_t find(uint32_t index) const {
    const uint32_t lane = __ffs(static_cast<int32_t>(__ballot_sync(~0u, up_to_ > index))) - 1;
    uint32_t rank = index - __shfl_sync(~0u, before_, lane);
    uint32_t word = __shfl_sync(~0u, words_[0], lane), place = 0;
#pragma unroll
    for (int i = 1; i < static_cast<int>(kWords); ++i) {
      const uint32_t next = __shfl_sync(~0u, words_[i], lane);
      const uint32_t set = __popc(word);
      if (rank < set || place != i - 1u) continue;
      rank -= set;
      word = next;
      place = i;
    }
    const uint32_t earlier = __popc(word & ((1u << lane_) - 1));
    const uint32_t is_it = __ballot_sync(~0u, (word >> lane_ & 1) != 0 && earlier == rank);
    return lane * kOfLane + place * 32 + __ffs(static_cast<int32_t>(is_it)) - 1;
  }

 private:
  uint32_t lane_;
  uint32_t words_[kWords];
  uint32_t before_, up_to_;  // that are set: before the lane's; with the lane's
};

}  // namespace haloconv::halo
