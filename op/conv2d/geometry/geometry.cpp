#include "conv2d/geometry/geometry.h"

#include <algorithm>
#include <numeric>

#include "conv2d/geometry/integers.h"

namespace haloconv {

namespace {

// A single tap has no neighbour, so its dilation, which may be anything, does not count.
int64_t tap_distance(int64_t taps, int64_t dilation) { return taps > 1 ? dilation : 1; }

// The phases of one axis, in order.
std::vector<AxisPhase> dgrad_phases(int64_t in_size, int64_t taps, int64_t stride, int64_t dilation,
                                    int64_t pad) {
  std::vector<AxisPhase> phases;
  phases.reserve(std::min(stride, in_size));
  for (int64_t first = 0; first < std::min(stride, in_size); ++first) {
    phases.push_back(dgrad_phase(in_size, taps, stride, dilation, pad, first));
  }
  return phases;
}

}  // namespace

bool prefers_channels(const Strides& strides, int64_t channels) {
  return strides.c == 1 && strides.w != 1 && channels > 1;
}

Axis fprop_axis(int64_t stride, int64_t dilation) {
  return {.pixel_step = 1,
          .source_step = narrow(stride),
          .tap_step = 1,
          .shift_step = narrow(dilation)};
}

AxisPhase fprop_phase(int64_t out_size, int64_t taps, int64_t pad) {
  return {.first_pixel = 0,
          .pixels = narrow(out_size),
          .origin = narrow(-pad),
          .first_tap = 0,
          .taps = narrow(taps),
          .first_shift = 0};
}

Axis dgrad_axis(int64_t stride, int64_t dilation) {
  const int64_t gcd = std::gcd(stride, dilation);
  return {.pixel_step = narrow(stride),
          .source_step = 1,
          .tap_step = narrow(stride / gcd),
          .shift_step = narrow(-dilation / gcd)};
}

// Input row h meets tap r at output row (h + pad - r*dilation) / stride, if that is whole. So it
// meets the taps with r*dilation = h + pad modulo the stride.
AxisPhase dgrad_phase(int64_t in_size, int64_t taps, int64_t stride, int64_t dilation, int64_t pad,
                      int64_t first_pixel) {
  const int64_t residue = (first_pixel + pad) % stride;
  const int64_t tap_step = stride / std::gcd(stride, dilation);
  AxisPhase phase{.first_pixel = narrow(first_pixel),
                  .pixels = narrow(ceil_div(in_size - first_pixel, stride)),
                  .origin = narrow((first_pixel + pad) / stride),
                  .first_tap = 0,
                  .taps = 0,
                  .first_shift = 0};
  for (int64_t tap = 0; tap < std::min(tap_step, taps); ++tap) {
    if (tap * dilation % stride != residue) continue;
    phase.first_tap = narrow(tap);
    phase.taps = narrow(ceil_div(taps - tap, tap_step));
    phase.first_shift = narrow(-(tap * dilation / stride));
    break;  // the next one is a tap_step away
  }
  return phase;
}

Gather make_gather(const Conv2dProblem& p, Direction direction) {
  const bool fprop = direction == Direction::kFprop;
  const auto axis = fprop ? fprop_axis : dgrad_axis;
  Gather g{};
  g.source = fprop ? p.input : p.output;
  g.destination = fprop ? p.output : p.input;
  g.source_h = narrow(fprop ? p.h : p.p());
  g.source_w = narrow(fprop ? p.w : p.q());
  g.filter = p.filter;
  g.filter_group = p.group_k() * p.filter.n;
  if (!fprop) std::swap(g.filter.n, g.filter.c);
  g.axis_h = axis(p.stride_h, tap_distance(p.r, p.dilation_h));
  g.axis_w = axis(p.stride_w, tap_distance(p.s, p.dilation_w));
  g.groups = narrow(p.groups);
  g.channels = narrow(fprop ? p.group_c() : p.group_k());
  g.rows = narrow(fprop ? p.group_k() : p.group_c());
  g.channels_last = prefers_channels(g.source, g.channels);
  g.channel_count = FastDiv(g.channels);
  return g;
}

int64_t phase_count(const Conv2dProblem& p, Direction direction) {
  if (direction != Direction::kDgrad) return 1;
  return std::min(p.stride_h, p.h) * std::min(p.stride_w, p.w);
}

std::vector<AxisPhase> make_row_phases(const Conv2dProblem& p, Direction direction) {
  if (direction == Direction::kFprop) return {fprop_phase(p.p(), p.r, p.pad_top)};
  return dgrad_phases(p.h, p.r, p.stride_h, tap_distance(p.r, p.dilation_h), p.pad_top);
}

std::vector<AxisPhase> make_column_phases(const Conv2dProblem& p, Direction direction) {
  if (direction == Direction::kFprop) return {fprop_phase(p.q(), p.s, p.pad_left)};
  return dgrad_phases(p.w, p.s, p.stride_w, tap_distance(p.s, p.dilation_w), p.pad_left);
}

std::vector<Phase> make_phases(const Conv2dProblem& p, Direction direction) {
  const int64_t channels = direction == Direction::kFprop ? p.group_c() : p.group_k();
  const std::vector<AxisPhase> columns = make_column_phases(p, direction);
  std::vector<Phase> phases;
  phases.reserve(phase_count(p, direction));
  for (const AxisPhase& h : make_row_phases(p, direction)) {
    for (const AxisPhase& w : columns) {
      Phase phase{};
      phase.h = h;
      phase.w = w;
      phase.pixels = p.n * h.pixels * w.pixels;
      phase.reduction = narrow(channels * h.taps * w.taps);
      phase.plane = FastDiv(int64_t{h.pixels} * w.pixels);
      phase.columns = FastDiv(w.pixels);
      phase.taps = FastDiv(std::max<int64_t>(int64_t{h.taps} * w.taps, 1));
      phase.taps_w = FastDiv(std::max(w.taps, 1));
      phases.push_back(phase);
    }
  }
  return phases;
}

TappedPhases tapped_phases(const Conv2dProblem& problem, Direction direction) {
  TappedPhases phases{make_row_phases(problem, direction), make_column_phases(problem, direction)};
  const auto has_no_taps = [](const AxisPhase& phase) { return phase.taps == 0; };
  std::erase_if(phases.rows, has_no_taps);
  std::erase_if(phases.columns, has_no_taps);
  return phases;
}

Wgrad make_wgrad(const Conv2dProblem& p, bool with_bias) {
  Wgrad g{};
  g.input = p.input;
  g.output = p.output;
  g.filter = p.filter;
  g.h = narrow(p.h);
  g.w = narrow(p.w);
  g.groups = narrow(p.groups);
  g.rows = narrow(p.group_k());
  g.channels = narrow(p.group_c());
  g.taps_h = narrow(p.r);
  g.taps_w = narrow(p.s);
  g.has_bias_column = with_bias;
  g.columns = narrow(p.group_c() * p.r * p.s + (with_bias ? 1 : 0));
  g.stride_h = narrow(p.stride_h);
  g.stride_w = narrow(p.stride_w);
  g.dilation_h = narrow(tap_distance(p.r, p.dilation_h));
  g.dilation_w = narrow(tap_distance(p.s, p.dilation_w));
  g.pad_top = narrow(p.pad_top);
  g.pad_left = narrow(p.pad_left);
  g.pixels = p.n * p.p() * p.q();
  g.plane = FastDiv(p.p() * p.q());
  g.q = FastDiv(p.q());
  g.channels_last = prefers_channels(p.input, p.group_c());
  g.taps = FastDiv(p.r * p.s);
  g.taps_w_div = FastDiv(p.s);
  g.channel_count = FastDiv(p.group_c());
  return g;
}

}  // namespace haloconv
