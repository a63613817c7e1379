#include "conv2d/families/depthwise/rows.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

// Of shared memory, so that several blocks of a multiprocessor load while others compute.
constexpr int64_t kMostBytes = 24 * 1024;
constexpr int64_t kMostWgradBytes = 20 * 1024;  // of each stage
constexpr int kMostThreadsAcross = 32;
constexpr int64_t kWantedThreadsOfBlock = 64;  // at least

// Of a kernel's operands in shared memory.
int64_t element_size(DataType type) { return size_of(type) == 2 ? 2 : 4; }

void set_windows(Depthwise& d, int64_t row_step, int64_t size) {
  const DepthwiseAxis &h = d.h, &w = d.w;
  d.windows = make_depthwise_cells({.rows = h.window,
                                    .columns = w.window,
                                    .height = h.source_size,
                                    .width = w.source_size,
                                    .top = h.origin,
                                    .left = w.origin,
                                    .threads = w.threads,
                                    .cells = w.cells(kDepthwiseColumns),
                                    .advance = w.advance(kDepthwiseColumns),
                                    .tiles_w = w.tiles,
                                    .row_step = row_step},
                                   size);
}

void set_grads(DepthwiseWgrad& g, int64_t row_step, int64_t size) {
  const DepthwiseAxis &h = g.d.h, &w = g.d.w;
  g.grads = make_depthwise_cells({.rows = h.threads * kDepthwiseWgradRows,
                                  .columns = w.threads * kDepthwiseColumns,
                                  .height = h.outputs,
                                  .width = w.outputs,
                                  .top = 0,
                                  .left = 0,
                                  .threads = w.threads,
                                  .cells = kDepthwiseColumns,
                                  .advance = kDepthwiseColumns,
                                  .tiles_w = w.tiles,
                                  .row_step = row_step},
                                 size);
}

// How many planes, `most` at most, where each has so many threads: those of which the fewest lanes
// of warps are idle, in blocks of some size.
int32_t best_planes(int64_t threads, int64_t most) {
  const auto used = [&](int64_t planes) {
    return static_cast<double>(threads * planes) /
           static_cast<double>(round_up(threads * planes, kWarp));
  };
  int64_t best = std::min(most, ceil_div(kWantedThreadsOfBlock, threads));
  for (int64_t planes = best + 1; planes <= most; ++planes) {
    if (used(planes) > used(best)) best = planes;
  }
  return static_cast<int32_t>(best);
}

// As large a tile of a plane as a block has threads, and most_bytes, for; bytes(planes) is what the
// planes take, by what it sets.
template <class Bytes>
void set_tile(Depthwise& d, int32_t thread_rows, int64_t most_bytes, Bytes bytes) {
  d.thread_rows = thread_rows;
  set_tiles(d.w, kDepthwiseColumns, kMostThreadsAcross);
  set_tiles(d.h, thread_rows, std::max(1, kDepthwiseThreads / d.w.threads));
  while (bytes(1) > most_bytes && d.h.threads > 1) {
    set_tiles(d.h, thread_rows, d.h.threads - 1);
  }
  const int32_t threads = d.w.threads * d.h.threads;
  const int64_t each = bytes(2) - bytes(1), beside = bytes(1) - each;
  const int64_t fit = std::min((most_bytes - beside) / each, int64_t{kDepthwiseThreads} / threads);
  d.tile_planes = best_planes(threads, std::clamp<int64_t>(fit, 1, d.planes));
  d.threads = static_cast<int32_t>(round_up(int64_t{threads} * d.tile_planes, kWarp));
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
  d.filter_pitch = static_cast<int32_t>(round_up(d.w.taps, 4));
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
  const int64_t size = element_size(problem.type);
  const int64_t row_step = direction == Direction::kFprop ? problem.input.h : problem.output.h;
  const auto bytes = [&](int64_t count) {
    set_windows(d, row_step, size);
    return size * elements_of(d.windows, count) + 4 * count * d.h.taps * d.filter_pitch;
  };
  set_tile(d, depthwise_rows(size), kMostBytes, bytes);
  d.shared_bytes = bytes(d.tile_planes);
  d.filters_at = static_cast<int32_t>(elements_of(d.windows, d.tile_planes) * size / 4);
  d.blocks = ceil_div(planes, d.tile_planes) * d.h.tiles * d.w.tiles;
  return made;
}

std::optional<DepthwiseWgrad> make_depthwise_wgrad(const Conv2dProblem& problem) {
  const std::optional<Depthwise> made = make_planes(problem, Direction::kFprop);
  if (!made || made->h.taps != made->w.taps || made->h.step != made->w.step) return std::nullopt;
  DepthwiseWgrad g{};
  g.d = *made;
  g.d.planes = static_cast<int32_t>(problem.n);
  const int64_t size = element_size(problem.type);
  const auto bytes = [&](int64_t planes) {
    set_windows(g.d, problem.input.h, size);
    set_grads(g, problem.output.h, size);
    return size * (elements_of(g.d.windows, planes) + elements_of(g.grads, planes));
  };
  set_tile(g.d, kDepthwiseWgradRows, kMostWgradBytes, bytes);
  g.stage = static_cast<int32_t>(bytes(g.d.tile_planes) / size);
  g.grads_at = static_cast<int32_t>(elements_of(g.d.windows, g.d.tile_planes));
  // In the end each warp's sums lie there.
  const int64_t sums = g.d.threads / kWarp * (int64_t{g.d.h.taps} * g.d.w.taps + 1);
  g.d.shared_bytes = std::max(size * kDepthwiseStages * g.stage, 4 * sums);
  const int64_t tiles = ceil_div(problem.n, g.d.tile_planes) * g.d.h.tiles * g.d.w.tiles;
  if (tiles > INT32_MAX / 2) return std::nullopt;  // blocks count from a first to a last
  g.tiles = static_cast<int32_t>(tiles);
  return g;
}

}  // namespace haloconv::depthwise
