// How the generic implementation runs a problem. Pure host functions, which ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>

#include "chip/chip.h"
#include "conv2d/once.h"
#include "conv2d/problem.h"

namespace haloconv {

struct Phase;

}  // namespace haloconv

namespace haloconv::generic {

// A kernel of the generic family. The numbers are the block's tile: rows (channels) x columns
// (pixels; in wgrad: channels x taps). kDirect has no tile: a thread sums one pixel by itself.
enum class Kernel { k128x128, k64x128, k32x128, k16x256, k128x32, kDirect };

struct TileShape {
  int m, n, k;  // k: the step along the reduction
  int tm, tn;   // results of one thread

  constexpr int threads() const { return tm == 0 ? 0 : (m / tm) * (n / tn); }
};

// float64 halves the step, so that the operands take the same shared memory. Chosen by the
// registers of a thread (64 sums at most) and by measurement: benchmarks/NOTES.md.
constexpr TileShape tile_shape(Kernel kernel, DataType type) {
  const int k = type == DataType::kFloat64 ? 8 : 16;
  switch (kernel) {
    case Kernel::k128x128:
      return {128, 128, k, 8, 8};
    case Kernel::k64x128:
      return {64, 128, k, 8, 8};
    case Kernel::k32x128:
      return {32, 128, k, 4, 8};
    case Kernel::k16x256:
      return {16, 256, 8, 8, 4};
    case Kernel::k128x32:
      return {128, 32, k, 8, 4};
    case Kernel::kDirect:
      break;
  }
  return {};
}

// kDirect's block: in fprop and dgrad a thread sums some pixels; in wgrad it sums, over many
// pixels, so many columns: 3 x 3 taps and the bias gradient.
inline constexpr int kDirectThreads = 256;
inline constexpr int kDirectThreadPixels = 4;
inline constexpr int kDirectPixels = kDirectThreads * kDirectThreadPixels;
inline constexpr int kDirectColumns = 10;

struct Lowered;

struct Plan {
  Direction direction = Direction::kFprop;
  Kernel kernel = Kernel::k128x128;
  // Rows that one thread of kDirect sums; 0 for other kernels.
  int direct_rows = 0;
  // wgrad only: blocks that share a tile's pixels, and the pixels of each.
  int64_t splits = 1;
  int64_t split_pixels = 0;
  // wgrad only: a further column sums grad_output, which is the bias gradient.
  bool with_bias = false;
  // Packed filter (fprop, dgrad) or partial sums (wgrad).
  int64_t workspace_bytes = 0;
  // The time that the model expects, in milliseconds; infinite if no kernel has the blocks.
  double estimated_ms = 0;
  // What launches need, computed by the first of them; only in plans with which the family
  // answers.
  std::shared_ptr<const Once<Lowered>> lowered = nullptr;
};

// Whether the plan has a kernel that takes a fusion.
inline bool takes_fusion(const Plan& plan) { return plan.direction != Direction::kWgrad; }

std::ostream& operator<<(std::ostream& os, Kernel kernel);
std::ostream& operator<<(std::ostream& os, const Plan& plan);

// The plan expected to be fastest. with_bias matters only to wgrad.
Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip,
               bool with_bias = false);
// The plan for a given kernel; its estimate is infinite if it needs more blocks than a grid has, or
// does not take the problem.
Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip, bool with_bias,
               Kernel kernel);

// fprop and dgrad keep the filter in the workspace, padded to whole tiles and in the order in
// which they reduce: (group, reduction, row), zero where padded.
struct PackedShape {
  int rows, columns, step;  // of a block's tile: channels, pixels, reduction
  int64_t pitch;            // elements from one reduction index to the next
  int64_t group_elements;   // elements from one group to the next
};

// `phases` are make_phases()'s for the plan's direction.
PackedShape packed_shape(const Conv2dProblem& problem, const Plan& plan,
                         std::span<const Phase> phases);

inline constexpr Kernel kAllKernels[] = {Kernel::k128x128, Kernel::k64x128, Kernel::k32x128,
                                         Kernel::k16x256,  Kernel::k128x32, Kernel::kDirect};

}  // namespace haloconv::generic
