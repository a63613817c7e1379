// The plans of the pointwise family for weight gradients. Pure host functions: they ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/pointwise/flat_copy.h"
#include "conv2d/families/pointwise/tile.h"
#include "conv2d/families/pointwise/unfold.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

struct PairedArguments;
struct WgradArguments;

struct WgradPlan {
  Tile tile;       // of the filter: output and input channels
  int splits = 1;  // blocks that share a tile's pixels
  // The bias gradient is summed too.
  bool with_bias = false;
  bool rounds = false;          // float32 to TF32
  int64_t workspace_bytes = 0;  // partial sums, and before them the copies
  std::optional<Unfold> unfold = std::nullopt;
  std::optional<FlatCopy> flat_copy = std::nullopt;
  // Set of a filter a few columns wide with a stride of 2, whose input is read as it lies.
  std::shared_ptr<const PairedArguments> paired = nullptr;
  // It is a forward pass (full_filter.h).
  bool is_full_filter = false;
  double estimated_ms = 0;
  std::shared_ptr<const WgradArguments> arguments = nullptr;  // all but their pointers
};

std::ostream& operator<<(std::ostream& os, const WgradPlan& plan);

// The best plan of each tile; none unless the problem, flattened() and passed by declines(), is of
// one tap and a 16-bit type with pixels contiguous.
std::vector<WgradPlan> make_wgrad_plans(const Conv2dProblem& problem, const Chip& chip,
                                        bool with_bias);

// The best plan of a problem that make_paired_arguments() takes; none of others, or where its
// partial sums take too much memory.
std::optional<WgradPlan> make_paired_plan(const Conv2dProblem& problem, const Chip& chip,
                                          bool with_bias);

}  // namespace haloconv::pointwise
