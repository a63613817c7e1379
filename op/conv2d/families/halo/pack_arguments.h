// The filter in the order in which the math warpgroups read it: for each launch's phase, group, 64
// rows of the accumulators, step (chunk, tap) and thread of a warpgroup its four values of the
// instruction's operand, of 16-bit types eight; float32 is rounded to TF32 unless it is multiplied
// in parts; zero where rows, channels or steps are padded, or where a row of the fold does not meet
// the tap. Here the arguments of the kernel that packs it: plain numbers, made on the host, tested
// without a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::halo {

inline constexpr int kPackSteps = 16;  // at most: steps that a block packs at a time

struct PackPhase {
  int64_t packed_at;             // 16-byte units from the workspace's start
  int32_t packed_steps;          // of 64 rows
  int32_t block_chunks, blocks;  // chunks of a block; blocks along the chunks
  int32_t taps, taps_s;          // folded; of these along w
  int32_t filter_taps;           // along the axis of the fold, not folded
  int32_t first_r, first_s;      // the filter's coordinates of the first tap
};

struct PackArguments {
  const void* filter;
  void* packed;                       // the workspace
  int64_t group, row, channel, r, s;  // elements of the filter from one to the next
  int32_t step_r, step_s;             // the filter's coordinates from tap to tap
  int32_t channels, rows;             // of a group
  int32_t groups, row_groups;
  FoldedRows folded;
  Fold fold;
  uint32_t* counters;  // of all launches, and the marks behind them; set to 0
  int32_t counter_count;
  PackPhase phases[kPhasesOfLaunch];  // those after the last have no blocks

  // Where a group's filter has the value of a row, channel and tap; negative: that value is zero.
  HALOCONV_HOST_DEVICE int64_t offset(const PackPhase& phase, int32_t folded_row, int32_t c,
                                      int32_t tap) const {
    const FoldedRows::Row at = folded.at(folded_row);
    int32_t tap_r = tap / phase.taps_s, tap_s = tap % phase.taps_s;
    int32_t& of_fold = folded.columns ? tap_s : tap_r;
    of_fold = fold.tap_of(of_fold, at.fold);
    if (at.fold >= folded.count || at.channel >= rows || c >= channels || of_fold < 0 ||
        of_fold >= phase.filter_taps) {
      return -1;
    }
    return at.channel * row + c * channel + (phase.first_r + tap_r * step_r) * r +
           (phase.first_s + tap_s * step_s) * s;
  }
  // Without a fold: how far a tap's value is from where the row's and channel's begin.
  HALOCONV_HOST_DEVICE int64_t tap_offset(const PackPhase& phase, int32_t tap) const {
    const int32_t tap_r = tap / phase.taps_s, tap_s = tap - tap_r * phase.taps_s;
    return (phase.first_r + tap_r * step_r) * r + (phase.first_s + tap_s * step_s) * s;
  }
};

// All but the pointers, of the kernel's launches for make_launches()'s.
std::vector<PackArguments> make_pack_arguments(const Conv2dProblem& problem, const Plan& plan,
                                               const std::vector<Launch>& launches);

}  // namespace haloconv::halo
