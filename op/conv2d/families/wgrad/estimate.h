// What plans of the weight gradient are expected to take: the cost model, fitted to an H200.
// benchmarks/NOTES.md.
#pragma once

#include <cstdint>

#include "chip/chip.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::wgrad {

// What a block leaves of the multiprocessor's 256 KiB is the L1 cache: 28 KiB, or 92 where it takes
// no more than this.
inline constexpr int64_t kLessShared = int64_t{163} << 10;

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

// Cycles of a strip of so many steps, each of which takes both warpgroups so many; splits change
// nothing of it.
class StripCycles {
 public:
  StripCycles(const Arguments& args, double steps, double step_cycles);
  double operator()(double copy_cycles) const;

 private:
  double math_, load_;
};
// No more than that of any stages, for so many steps; `args`: of the columns, which decide the
// window.
class LeastStripCycles {
 public:
  LeastStripCycles(const Arguments& args, double step_cycles);
  double operator()(double steps, int segment, int walk_rows) const;

 private:
  double step_cycles_;
  double fresh_lines_, other_lines_;   // of a window
  double line_cycles_, pixel_cycles_;  // to bring a line, beside its segment's pixels and for each
};

// All kernels, where a strip takes so many cycles.
double estimate_ms(const Rates& rates, int64_t workspace_bytes, const Arguments& args,
                   double strip);
// No more than its blocks take with any number of splits, where a multiprocessor's share of all
// tiles is so many strips.
double least_cycles(double strips, double strip);

// Whether the kernels are expected to wait for memory.
bool is_bound_by_bytes(const Rates& rates, double estimated_ms);

}  // namespace haloconv::wgrad
