#include "conv2d/depthwise.h"

#include <algorithm>

#include "conv2d/integers.h"

namespace haloconv {

namespace {

// Of shared memory, so that several blocks of a multiprocessor load while others compute.
constexpr int64_t kMostBytes = 24 * 1024;
constexpr int64_t kMostWgradBytes = 20 * 1024;  // of each stage
constexpr int kMostThreadsAcross = 32;
constexpr int kBanks = 32;

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

// Planes and tiles are still to be set.
std::optional<Depthwise> make_planes(const Conv2dProblem& problem, Direction direction) {
  if (problem.input.w != 1 || problem.output.w != 1) return std::nullopt;
  const auto axes = make_depthwise_axes(problem, direction);
  if (!axes) return std::nullopt;
  Depthwise d{};
  static_cast<DepthwiseAxes&>(d) = *axes;
  d.taps_h = FastDiv(d.h.taps);
  return d;
}

}  // namespace

std::optional<Depthwise> make_depthwise(const Conv2dProblem& problem, Direction direction) {
  if (direction == Direction::kWgrad) return std::nullopt;
  std::optional<Depthwise> made = make_planes(problem, direction);
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
  const std::optional<Depthwise> made = make_planes(problem, Direction::kFprop);
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
