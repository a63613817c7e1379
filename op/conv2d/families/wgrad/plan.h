// How the Hopper implementation computes a weight gradient. Pure host functions: no GPU is asked.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "chip/chip.h"
#include "conv2d/once.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::wgrad {

struct Lowered;

// What the second of a block's two warpgroups computes beside the first: 64 further output
// channels, or the same 64 for the other half of the pixels.
enum class Share { kChannels, kPixels };

// A warpgroup's matrix instructions for two pixels of each of a strip's segments: so many slots of
// so many columns.
struct Instance {
  int slots, width;
  bool operator==(const Instance&) const = default;
};

// A slot's columns are taps of a row of the filter times input channels: slot_taps * slot_channels
// = width. A block's slots are tile_runs runs of slot_taps taps each times tile_groups groups of
// slot_channels channels each; what is left of its slots idles.
struct Plan {
  bool precise = false;  // float32 is not rounded, but multiplied in two parts of TF32
  Instance instance = {9, 32};
  int slot_channels = 32;
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

// Of these the first few.
std::vector<Plan> best_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool tf32, size_t count);

// The same where the copy engine cannot take the gradient's address, in no more workspace.
Plan without_boxes(const Conv2dProblem& problem, Plan plan);

}  // namespace haloconv::sm90::wgrad
