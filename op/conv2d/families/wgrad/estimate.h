// What plans of the weight gradient are expected to take: the cost model, fitted to an H200.
// benchmarks/NOTES.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "chip/chip.h"
#include "conv2d/families/wgrad/argument_steps.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::wgrad {

// What a block leaves of the multiprocessor's 256 KiB is the L1 cache: 28 KiB, or 92 where it takes
// no more than this.
inline constexpr int64_t kLessShared = int64_t{163} << 10;

// Fitted as the other constants, which are in estimate.cpp.
inline constexpr double kUnhidden = 0.45;      // of the work beside the longest
inline constexpr double kStripCycles = 710;    // of a strip beside its work
inline constexpr double kBlockCycles = 24500;  // first loads, last sums

// What the model takes from a chip and a problem, whose tensors have so many bytes. Worked out once
// for all plans.
struct Rates {
  Rates(double bytes, const Chip& chip);

  double clock_hz, partial_bytes_per_ms;
  double memory_ms;  // to move the problem's bytes
  int multiprocessors;

  // Of the kernels, whose blocks take so many cycles and whose partial sums so many milliseconds.
  double ms_of(double cycles, double partial_ms) const;
  // What blocks may take at most where the same says no more milliseconds: a little more, against
  // rounding.
  double cycles_within(double ms, double partial_ms) const;
};

// Steps of a strip of such segments, on average, of which a warpgroup has so many pixels.
double mean_steps(int32_t q, int32_t segment, int32_t group_pixels);

// What bringing a strip of grad_output takes.
struct Copies {
  double cycles = 0;
  double cached_bytes = 0;  // of copies that go through the L1 cache

  // The fewer bytes of shared memory a block takes, the fewer they are.
  double cycles_with(int64_t shared) const;
};
// As set_boxes() says.
Copies copies_of(const Arguments& args);

// Cycles of a strip by those of its products and of its input, which nothing changes but the
// segments.
struct StripCycles {
  double math, load;

  double with(double copy_cycles) const {
    const double longest = std::max(std::max(math, load), copy_cycles);
    return longest + kUnhidden * (math + load + copy_cycles - longest) + kStripCycles;
  }
};
// Those of the input, of strips of such segments; `args`: of the columns, which decide the window.
double load_cycles(const Arguments& args, int segment, const Walks& walks);

// All kernels, where a strip takes so many cycles.
double estimate_ms(const Rates& rates, int64_t workspace_bytes, const Arguments& args,
                   double strip);
// No more than its blocks take with any number of splits, where a multiprocessor's share of all
// tiles is so many strips.
inline double least_cycles(double strips, double strip) {
  return std::max(strips, 1.0) * strip + kBlockCycles;
}

// Whether the kernels are expected to wait for memory.
bool is_bound_by_bytes(const Rates& rates, double estimated_ms);

}  // namespace haloconv::wgrad
