#include "conv2d/depthwise_axes.h"

#include <algorithm>
#include <cstdlib>

#include "conv2d/gather.h"
#include "conv2d/integers.h"

namespace haloconv {

namespace {

constexpr int kMostStep = 4;
constexpr int kMostTaps = 16;

std::optional<DepthwiseAxis> make_axis(const Axis& axis, const AxisPhase& phase,
                                       int32_t source_size, int64_t filter_distance) {
  if (phase.taps < 1 || phase.taps > kMostTaps) return std::nullopt;
  if (phase.taps > 1 && std::abs(axis.shift_step) != 1) return std::nullopt;
  if (axis.pixel_step != 1 || axis.source_step > kMostStep) return std::nullopt;
  DepthwiseAxis a{};
  a.outputs = phase.pixels;
  a.source_size = source_size;
  a.step = axis.source_step;
  a.origin = phase.origin + phase.first_shift;
  a.taps = phase.taps;
  a.filter_step = axis.tap_step * filter_distance;
  if (axis.shift_step < 0) {  // from the last tap to the first
    a.origin -= phase.taps - 1;
    a.filter_step = -a.filter_step;
  }
  return a;
}

bool has_width(int32_t taps) { return taps == 3 || taps == 5 || taps == 7; }

// Of a tile of `threads`, each with so many outputs.
int32_t window_of(const DepthwiseAxis& a, int32_t outputs) {
  return (a.threads * outputs - 1) * a.step + a.taps;
}

}  // namespace

std::optional<DepthwiseAxes> make_depthwise_axes(const Conv2dProblem& problem,
                                                 Direction direction) {
  if (problem.type == DataType::kFloat64) return std::nullopt;
  const Gather g = make_gather(problem, direction);
  if (g.channels != 1 || phase_count(problem, direction) != 1) return std::nullopt;
  const Phase phase = make_phases(problem, direction).front();
  const auto h = make_axis(g.axis_h, phase.h, g.source_h, g.filter.h);
  const auto w = make_axis(g.axis_w, phase.w, g.source_w, g.filter.w);
  if (!h || !w || w->step > 2 || !has_width(w->taps)) return std::nullopt;
  const int64_t channels = int64_t{g.groups} * g.rows;
  if (channels > INT32_MAX) return std::nullopt;
  DepthwiseAxes d{};
  d.h = *h;
  d.w = *w;
  const auto last = [](const DepthwiseAxis& a) {
    return a.filter_step < 0 ? -(a.taps - 1) * a.filter_step : 0;
  };
  d.filter_first =
      phase.h.first_tap * g.filter.h + phase.w.first_tap * g.filter.w + last(d.h) + last(d.w);
  d.channels = FastDiv(channels);
  d.rows = FastDiv(g.rows);
  return d;
}

void set_tiles(DepthwiseAxis& a, int32_t outputs, int64_t most_threads) {
  const int64_t threads = ceil_div(a.outputs, outputs);
  a.tiles = static_cast<int32_t>(ceil_div(threads, std::min(threads, most_threads)));
  a.threads = static_cast<int32_t>(ceil_div(threads, a.tiles));
  a.window = window_of(a, outputs);
}

}  // namespace haloconv
