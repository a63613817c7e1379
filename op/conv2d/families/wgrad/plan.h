// The plans of the wgrad family. Pure host functions: they ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "chip/chip.h"
#include "conv2d/once.h"
#include "conv2d/problem.h"

namespace haloconv::wgrad {

struct Lowered;

// What the second of a block's two warpgroups computes beside the first: 64 further output
// channels, the same 64 for the other half of the pixels, or the same 64 for further columns.
enum class Share { kChannels, kPixels, kColumns };

// A warpgroup's matrix instructions for two pixels of each of a strip's segments: so many
// instructions of so many columns.
struct Instance {
  int instructions, width;
  bool operator==(const Instance&) const = default;
};

// An instruction's columns are taps of a row of the filter times input channels: mma_taps *
// mma_channels = width. A block's instructions (with Share::kColumns those of both warpgroups) are
// tile_runs runs of mma_taps taps each times tile_groups groups of mma_channels channels each; what
// is left of its instructions idles.
struct Plan {
  bool precise = false;  // float32 values are split into two TF32 terms instead of rounded
  Instance instance = {9, 32};
  int mma_channels = 32;
  int tile_runs = 9, tile_groups = 1;
  int segment = 16;  // pixels along a row; segments_of() them are a strip, what a stage holds
  Share share = Share::kChannels;
  bool boxes = false;  // the copy engine brings grad_output
  int splits = 1;      // blocks that share a tile's pixels
  // So many rows of a strip's neighbouring segments, then a split goes on where no other is: splits
  // that run at one time read neighbours, and the memory's sectors at their ends once. 0: a split's
  // strips follow each other.
  int walk_rows = 0;
  int stages = 2;  // strips that shared memory holds
  // The bias gradient is summed too.
  bool with_bias = false;
  int64_t workspace_bytes = 0;  // partial sums
  double estimated_ms = 0;
  // What launches need, worked out by the first of them; only of plans that best_plans() returns.
  std::shared_ptr<const Once<Lowered>> lowered = nullptr;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// All plans of a problem that hopper_rows_decline() passes, the one expected to be fastest first.
// None where no window fits in shared memory.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool tf32 = true);

// The first `count` of these, at most a few of each group of like plans.
std::vector<Plan> best_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool tf32, size_t count);

// The same plan without the copy engine, which cannot take some addresses of the gradient. It needs
// no more workspace.
Plan without_boxes(const Conv2dProblem& problem, Plan plan);

}  // namespace haloconv::wgrad
