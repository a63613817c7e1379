#include "conv2d/depthwise.h"

#include <algorithm>

#include "conv2d/gather.h"
#include "conv2d/integers.h"

namespace haloconv {

namespace {

constexpr int kMostStep = 4;
constexpr int kMostTaps = 16;
// Of shared memory, so that several blocks of a multiprocessor load while others compute.
constexpr int64_t kMostBytes = 24 * 1024;
constexpr int64_t kMostWgradBytes = 20 * 1024;  // of each stage
constexpr int kMostThreadsAcross = 32;
constexpr int kBanks = 32;

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

// Of a tile of `threads`, each with so many outputs.
int32_t window_of(const DepthwiseAxis& a, int32_t outputs) {
  return (a.threads * outputs - 1) * a.step + a.taps;
}

void set_tiles(DepthwiseAxis& a, int32_t outputs, int64_t most_threads) {
  const int64_t threads = ceil_div(a.outputs, outputs);
  a.tiles = static_cast<int32_t>(ceil_div(threads, std::min(threads, most_threads)));
  a.threads = static_cast<int32_t>(ceil_div(threads, a.tiles));
  a.window = window_of(a, outputs);
}

// Elements of a row that threads read by fours, and that lanes bring.
int32_t pitch_of(const DepthwiseAxis& w, int64_t taps, int64_t step) {
  const int64_t read = round_up((kDepthwiseColumns - 1) * step + taps, 4);
  const int64_t row = (w.threads - 1) * kDepthwiseColumns * step + read;
  return static_cast<int32_t>(round_up(row, kDepthwiseLanes));
}

// Elements of a plane. Where a warp's lanes have several planes, they begin at different banks.
int32_t plane_pitch_of(const DepthwiseAxis& w, int64_t rows, int64_t pitch) {
  const int64_t across = int64_t{w.threads} * kDepthwiseColumns;
  int64_t plane = rows * pitch;
  while (across < kBanks && plane % kBanks != across) plane += 4;
  return static_cast<int32_t>(plane);
}

void set_pitches(Depthwise& d) {
  d.pitch = pitch_of(d.w, d.w.taps, d.w.step);
  d.plane_pitch = plane_pitch_of(d.w, d.h.window, d.pitch);
  d.filter_pitch = static_cast<int32_t>(round_up(d.w.taps, 4));
}

void set_pitches(DepthwiseWgrad& g) {
  set_pitches(g.d);
  g.grad_pitch = pitch_of(g.d.w, 1, 1);
  g.grad_plane_pitch = plane_pitch_of(g.d.w, g.d.h.threads * kDepthwiseRows, g.grad_pitch);
}

// As large a tile as a block has threads, and most_bytes, for; bytes() sets the pitches, and is
// what a plane takes.
template <class Bytes>
void set_tile(Depthwise& d, int64_t most_bytes, Bytes bytes) {
  set_tiles(d.w, kDepthwiseColumns, kMostThreadsAcross);
  set_tiles(d.h, kDepthwiseRows, std::max(1, kDepthwiseThreads / d.w.threads));
  while (bytes() > most_bytes && d.h.threads > 1) {
    set_tiles(d.h, kDepthwiseRows, d.h.threads - 1);
  }
  const int32_t threads = d.w.threads * d.h.threads;
  const int64_t fit = std::min(most_bytes / bytes(), int64_t{kDepthwiseThreads} / threads);
  d.tile_planes = static_cast<int32_t>(std::clamp<int64_t>(fit, 1, d.planes));
  d.threads = static_cast<int32_t>(round_up(int64_t{threads} * d.tile_planes, 32));
  const int32_t loaders = d.threads / kDepthwiseLanes;
  d.row_loaders = std::max(1, loaders / d.tile_planes);
  d.plane_loaders = loaders / d.row_loaders;
  d.row_loaders_div = FastDiv(d.row_loaders);
  d.threads_w = FastDiv(d.w.threads);
  d.threads_h = FastDiv(d.h.threads);
  d.tiles_w = FastDiv(d.w.tiles);
  d.tiles_h = FastDiv(d.h.tiles);
}

bool has_width(int32_t taps) { return taps == 3 || taps == 5 || taps == 7; }

// The axes, channels and filters of a direction other than wgrad; planes and tiles are still to be
// set.
std::optional<Depthwise> make_axes(const Conv2dProblem& problem, Direction direction) {
  if (problem.type == DataType::kFloat64) return std::nullopt;
  const Gather g = make_gather(problem, direction);
  if (g.channels != 1 || phase_count(problem, direction) != 1) return std::nullopt;
  if (g.source.w != 1 || g.destination.w != 1) return std::nullopt;
  const Phase phase = make_phases(problem, direction).front();
  const auto h = make_axis(g.axis_h, phase.h, g.source_h, g.filter.h);
  const auto w = make_axis(g.axis_w, phase.w, g.source_w, g.filter.w);
  if (!h || !w || w->step > 2 || !has_width(w->taps)) return std::nullopt;
  const int64_t channels = int64_t{g.groups} * g.rows;
  if (channels > INT32_MAX) return std::nullopt;
  Depthwise d{};
  d.h = *h;
  d.w = *w;
  const auto last = [](const DepthwiseAxis& a) {
    return a.filter_step < 0 ? -(a.taps - 1) * a.filter_step : 0;
  };
  d.filter_first =
      phase.h.first_tap * g.filter.h + phase.w.first_tap * g.filter.w + last(d.h) + last(d.w);
  d.channels = FastDiv(channels);
  d.rows = FastDiv(g.rows);
  d.taps_h = FastDiv(d.h.taps);
  return d;
}

}  // namespace

std::optional<Depthwise> make_depthwise(const Conv2dProblem& problem, Direction direction) {
  if (direction == Direction::kWgrad) return std::nullopt;
  std::optional<Depthwise> made = make_axes(problem, direction);
  if (!made) return std::nullopt;
  Depthwise& d = *made;
  const int64_t planes = problem.n * d.channels.divisor;
  if (planes > INT32_MAX) return std::nullopt;
  d.planes = static_cast<int32_t>(planes);
  const auto bytes = [&] {
    set_pitches(d);
    return 4 * (int64_t{d.plane_pitch} + int64_t{d.h.taps} * d.filter_pitch);
  };
  set_tile(d, kMostBytes, bytes);
  d.filters_at = d.tile_planes * d.plane_pitch;
  d.shared_bytes = bytes() * d.tile_planes;
  d.blocks = ceil_div(planes, d.tile_planes) * d.h.tiles * d.w.tiles;
  return made;
}

std::optional<DepthwiseWgrad> make_depthwise_wgrad(const Conv2dProblem& problem) {
  const std::optional<Depthwise> made = make_axes(problem, Direction::kFprop);
  if (!made || made->h.taps != made->w.taps || made->h.step != made->w.step) return std::nullopt;
  DepthwiseWgrad g{};
  g.d = *made;
  g.d.planes = static_cast<int32_t>(problem.n);
  const auto bytes = [&] {
    set_pitches(g);
    return 4 * (int64_t{g.d.plane_pitch} + g.grad_plane_pitch);
  };
  set_tile(g.d, kMostWgradBytes, bytes);
  g.grads_at = g.d.tile_planes * g.d.plane_pitch;
  g.stage = g.grads_at + g.d.tile_planes * g.grad_plane_pitch;
  g.d.shared_bytes = int64_t{4} * kDepthwiseStages * g.stage;
  const int64_t tiles = ceil_div(problem.n, g.d.tile_planes) * g.d.h.tiles * g.d.w.tiles;
  if (tiles > INT32_MAX / 2) return std::nullopt;  // blocks count from a first to a last
  g.tiles = static_cast<int32_t>(tiles);
  return g;
}

}  // namespace haloconv
