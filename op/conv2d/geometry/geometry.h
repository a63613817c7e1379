// How the kernels see a convolution: sums over gathered pixels.
//
// fprop and dgrad are one computation. Each output pixel (i, j) of a phase sums, over channels and
// taps (y, x), filter * source[i*step + origin + shift(y), ...]. fprop has a single phase. dgrad
// gathers from the output gradient; with strides, input pixels of equal residue (a phase) meet the
// same subset of taps, and each phase is a dense convolution without strides: no zeros inserted.
// All of this is host arithmetic, tested without a GPU, on problems that beyond_limits() passes:
// their coordinates fit 32 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv {

// One axis of one phase.
struct AxisPhase {
  int32_t first_pixel;  // destination coordinate of the phase's pixel 0
  int32_t pixels;       // destination pixels in this phase
  int32_t origin;       // source coordinate that pixel 0 meets, before the tap's shift
  int32_t first_tap;    // filter coordinate of the phase's tap 0
  int32_t taps;         // taps of the filter in this phase; may be 0
  int32_t first_shift;  // source shift of tap 0
};

// What all phases of one axis share.
struct Axis {
  int32_t pixel_step;   // destination distance between neighbours of a phase
  int32_t source_step;  // source distance between neighbours of a phase
  int32_t tap_step;     // filter distance between neighbouring taps of a phase
  int32_t shift_step;   // source distance between neighbouring taps of a phase
};

Axis fprop_axis(int64_t stride, int64_t dilation);
AxisPhase fprop_phase(int64_t out_size, int64_t taps, int64_t pad);
Axis dgrad_axis(int64_t stride, int64_t dilation);
// The phase of input pixels first_pixel, first_pixel + stride, ...; 0 <= first_pixel < stride.
AxisPhase dgrad_phase(int64_t in_size, int64_t taps, int64_t stride, int64_t dilation, int64_t pad,
                      int64_t first_pixel);

// A phase as the generic kernels read it.
struct Phase {
  AxisPhase h, w;
  int64_t pixels;          // images * h.pixels * w.pixels
  int64_t packed_offset;   // rows of the packed filter before this phase's
  int32_t first_tile;      // tiles (blocks along pixels) of the launch's phases before this one
  int32_t reduction;       // channels * h.taps * w.taps
  FastDiv plane, columns;  // h.pixels * w.pixels; w.pixels
  FastDiv taps, taps_w;    // h.taps * w.taps; w.taps
};

// Kernel arguments hold at most this many phases (4 KB of arguments); more take several launches.
inline constexpr int kPhasesOfLaunch = 16;

// fprop or dgrad of one problem, the strides of both tensors in elements.
struct Gather {
  Strides source, destination;  // gathered from; written to
  int32_t source_h, source_w;
  Strides filter;        // n: destination channel, c: source channel within a group, h and w: taps
  int64_t filter_group;  // elements from one group's filters to the next
  Axis axis_h, axis_w;
  int32_t groups;
  int32_t channels;    // reduced, per group
  int32_t rows;        // destination channels per group
  bool channels_last;  // the reduction runs (tap, channel) rather than (channel, tap)
  FastDiv channel_count;
};

Gather make_gather(const Conv2dProblem& problem, Direction direction);
// How many phases that direction has.
int64_t phase_count(const Conv2dProblem& problem, Direction direction);
// Of one axis alone, in order: a phase is one of the rows with one of the columns.
std::vector<AxisPhase> make_row_phases(const Conv2dProblem& problem, Direction direction);
std::vector<AxisPhase> make_column_phases(const Conv2dProblem& problem, Direction direction);
// All phases in order, rows outermost; first_tile and packed_offset still 0.
std::vector<Phase> make_phases(const Conv2dProblem& problem, Direction direction);

// The phases of each axis that have taps.
struct TappedPhases {
  std::vector<AxisPhase> rows, columns;
  size_t count() const { return rows.size() * columns.size(); }
};
TappedPhases tapped_phases(const Conv2dProblem& problem, Direction direction);

// wgrad: rows are output channels, columns are taps (c, r, s), reduced over output pixels.
struct Wgrad {
  Strides input, output, filter;
  int32_t h, w;
  int32_t groups, rows, channels;  // rows and channels per group
  int32_t taps_h, taps_w;
  int32_t columns;  // channels * taps_h * taps_w, and one more for the bias gradient
  bool has_bias_column;
  int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int64_t pixels;  // n * p * q
  FastDiv plane, q;
  bool channels_last;  // columns run (tap, channel) rather than (channel, tap)
  FastDiv taps, taps_w_div, channel_count;
};

Wgrad make_wgrad(const Conv2dProblem& problem, bool with_bias);

// Whether a kernel should read neighbouring channels, not neighbouring pixels, by neighbouring
// threads.
bool prefers_channels(const Strides& strides, int64_t channels);

}  // namespace haloconv
