// How layers with few input channels run on Hopper, with the output's channels or rows innermost:
// fprop in 16-bit types and in TF32, both gradients in 16-bit types, and in TF32 with channels
// innermost. Pure host functions.
// dgrad's estimates were fitted to times on an H100; the others count only bytes and instructions.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/first_layers/arguments.h"
#include "conv2d/families/first_layers/dgrad_arguments.h"
#include "conv2d/families/first_layers/plain_wgrad.h"
#include "conv2d/families/first_layers/warp_products.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::first_layers {

// The most shared memory of a block, whose parts begin at multiples of the second number.
inline constexpr int64_t kSharedBytes = 224 * 1024;
inline constexpr int64_t kAlignment = 1024;

// Sums of a wgrad thread: of so many filter rows, with so many columns (group of taps, element)
// each.
struct SumShape {
  int32_t columns, rows;
  constexpr bool operator==(const SumShape&) const = default;
};
inline constexpr SumShape kSumShapes[] = {{16, 2}, {16, 4}, {32, 4}, {32, 7}, {64, 4}};

struct Plan {
  Direction direction = Direction::kFprop;
  bool rows_innermost = false;  // of the output
  int32_t channels = 0;  // of a tile: fprop's 32, 64, 96 or 128; wgrad's 64, 128; dgrad's of sums
  FpropArguments fprop{};
  std::optional<PlainRows> plain;  // fprop and wgrad from rows as they lie
  int32_t fused_runs = 0;          // of these with something fused
  int32_t plain_groups = 0;        // wgrad's from rows as they lie: math warpgroups
  std::optional<WarpProductsArguments> warp_products;  // wgrad in TF32
  SumShape sums{};
  WgradArguments wgrad{};
  DgradShape dgrad_shape{};
  DgradArguments dgrad{};
  int64_t dgrad_blocks = 0;
  int64_t shared_bytes = 0;
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;

  // For fprop with something fused.
  int64_t fused_shared_bytes() const {
    if (!rows_innermost) return shared_bytes;
    const int32_t bytes = fprop.sweep.units.elements == 4 ? 4 : 2;
    return shared_bytes + staging_bytes(bytes, true) - staging_bytes(bytes, false);
  }
  // For fprop or wgrad.
  const Sweep& sweep() const { return direction == Direction::kFprop ? fprop.sweep : wgrad.sweep; }
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Whether the output's rows are innermost, and not its channels.
bool has_rows_innermost(const Conv2dProblem& problem);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32,
                     const Chip& chip);

// dgrad's plans, in no order.
std::vector<Plan> make_dgrad_plans(const Conv2dProblem& problem, const Chip& chip);

// The plans of fprop or wgrad from rows as they lie, in no order.
std::vector<Plan> make_plain_plans(const Conv2dProblem& problem, Direction direction,
                                   const Chip& chip, bool with_bias);

// Why warp_products.h's kernels do not take a weight gradient in TF32, or "", and their plans.
std::string warp_products_decline(const Conv2dProblem& problem);
std::vector<Plan> make_warp_products_plans(const Conv2dProblem& problem, const Chip& chip,
                                           bool with_bias);

// All plans of a problem that declines() passes, the one expected to be fastest first; none if the
// units of a filter row do not fit. `is_aligned`: the tensors begin at multiples of 16 bytes.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool with_bias, bool is_aligned = true);

}  // namespace haloconv::sm90::first_layers
