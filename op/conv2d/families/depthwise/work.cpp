#include "conv2d/families/depthwise/work.h"

#include <algorithm>

#include "conv2d/families/depthwise/channels.h"
#include "conv2d/families/depthwise/images.h"
#include "conv2d/families/depthwise/lines.h"
#include "conv2d/families/depthwise/patches.h"
#include "conv2d/families/depthwise/rows.h"

namespace haloconv::depthwise {

namespace {

// Fitted to times on an H200: benchmarks/NOTES.md. With rows innermost, in a thread's cycles: what
// each thread begins and ends with, a multiply-add, an element of a window.
struct PlaneModel {
  double thread_cycles, tap_cycles, cell_cycles, launch_ms;
};
constexpr PlaneModel kPlaneGather32 = {337, 0.8, 43, 0.005};
constexpr PlaneModel kPlaneGather16 = {518, 1.57, 12, 0.005};
constexpr PlaneModel kPlaneWgrad32 = {162, 1.38, 59, 0.015};
constexpr PlaneModel kPlaneWgrad16 = {685, 2.8, 9.4, 0.0074};

const PlaneModel& plane_model(DataType type, bool wgrad) {
  if (size_of(type) == 2) return wgrad ? kPlaneWgrad16 : kPlaneGather16;
  return wgrad ? kPlaneWgrad32 : kPlaneGather32;
}

// With channels innermost: a multiply-add, an element of a span's window, a row of it.
struct SpanModel {
  double tap_cycles, cell_cycles, row_cycles, launch_ms;
};
constexpr SpanModel kSpanGather = {1.84, 10.2, 45, 0.007};
constexpr SpanModel kSpanWgrad = {2.72, 0, 168, 0.0065};

// Along lines, fitted to times on an H100, in a thread's cycles: what a vector takes beside its
// multiply-adds, one of these.
struct LineModel {
  double vector_cycles, tap_cycles, launch_ms;
};
constexpr LineModel kLineGather = {40, 7, 0.004};
constexpr LineModel kLineWgrad = {60, 7, 0.008};

// By patches, by eights of images; of a multiprocessor.
constexpr double kPatchLaunchMs = 0.003, kImagesLaunchMs = 0.005, kLanes = 128;

// Of one tile.
double cycles_of(const Depthwise& d, const PlaneModel& model) {
  const double taps = static_cast<double>(d.thread_rows) * kDepthwiseColumns * d.h.taps * d.w.taps /
                      (d.h.upsampling * d.w.upsampling);
  const double cells = static_cast<double>(d.tile_planes) * d.h.window * d.w.window;
  return d.threads * (model.thread_cycles + taps * model.tap_cycles) + cells * model.cell_cycles;
}

double cycles_of(const DepthwiseNhwc& d, const SpanModel& model) {
  const double rows = d.tile_rows * d.h.step + d.h.taps - 1;
  const double cells = rows * ((kSpanColumns - 1) * d.w.step + d.w.taps);
  const double taps = static_cast<double>(d.tile_rows) * kSpanColumns * d.h.taps * d.w.taps;
  // Of elements that are brought one by one, a thread's; 16 bytes are part of a row's cycles.
  // Measured on an H100: of several at once in 16 bits 30, in float32 10 to 20.
  constexpr double kElementCycles = 20, kAwaitedElementCycles = 34;
  const double element_cycles =
      span_elements_at_once(d.w.taps) > 1 ? kElementCycles : kAwaitedElementCycles;
  const double elements = d.at_once > 1 ? 0 : rows / d.h.step * d.stage;
  return d.threads() *
             (taps * model.tap_cycles + cells * model.cell_cycles + rows * model.row_cycles) +
         elements * element_cycles;
}

// Of a vector of outputs; with dilation each tap brings its own of the source.
double cycles_of_vector(const LineAxis& d, DataType type, const LineModel& model) {
  const double taps = static_cast<double>(d.taps) * line_elements(size_of(type));
  return model.vector_cycles * (d.tap_block == 1 ? d.taps : 1) + taps * model.tap_cycles;
}

// Blocks of wgrad on a multiprocessor, by their threads' registers and their shared memory.
int32_t resident_blocks(int32_t taps, int32_t threads, int64_t shared_bytes, const Chip& chip) {
  constexpr int64_t kReservedBytes = 1024;
  const int32_t most = taps == 7 ? 512 : taps > 3 ? 768 : 1024;
  const int64_t fit = chip.shared_bytes_per_block / (shared_bytes + kReservedBytes);
  return static_cast<int32_t>(std::clamp<int64_t>(fit, 1, std::max(1, most / threads)));
}

DepthwiseWork work_of(int64_t tiles, int64_t split_blocks, int32_t resident, double cycles,
                      double launch_ms) {
  const double blocks = static_cast<double>(tiles) * static_cast<double>(split_blocks);
  return {tiles, split_blocks, resident, blocks * cycles, launch_ms};
}

std::optional<DepthwiseWork> lines_work(const Conv2dProblem& problem, Direction direction) {
  constexpr double kBytesPerSecond = 3.9e12;  // nine tenths of a copy's
  std::optional<DepthwiseWork> work;
  if (direction == Direction::kWgrad) {
    const auto d = make_lines_wgrad(problem);
    if (!d) return std::nullopt;
    const int32_t resident = d->tap_block <= 8 ? 768 : 512;  // threads of a multiprocessor
    work = work_of(
        d->tiles, int64_t{d->channels.divisor} * d->tap_blocks.divisor, resident / d->threads,
        d->tile_vectors * cycles_of_vector(*d, problem.type, kLineWgrad), kLineWgrad.launch_ms);
  } else {
    const auto d = make_lines(problem, direction);
    if (!d) return std::nullopt;
    const double vectors = d->threads * line_vectors(d->tap_block, size_of(problem.type));
    work = work_of(d->blocks, 1, 1, vectors * cycles_of_vector(*d, problem.type, kLineGather),
                   kLineGather.launch_ms);
  }
  work->bytes_per_second = kBytesPerSecond;
  return work;
}

}  // namespace

std::optional<DepthwiseWork> depthwise_work(const Conv2dProblem& problem, Direction direction,
                                            Kernel kernel, const Chip& chip) {
  const bool wgrad = direction == Direction::kWgrad;
  if (kernel == Kernel::kPatches) {
    const auto d = make_patches(problem, direction);
    if (!d) return std::nullopt;
    return DepthwiseWork{.tiles = d->tiles,
                         .split_blocks = d->channel_tiles.divisor,
                         .resident = 1,
                         .cycles = d->cycles() * Patches::kMultiprocessors * kLanes,
                         .launch_ms = kPatchLaunchMs};
  }
  if (kernel == Kernel::kImages) {
    const auto d = wgrad ? make_images(problem, chip) : std::nullopt;
    if (!d) return std::nullopt;
    constexpr int32_t kBeginTiles = 4;
    return DepthwiseWork{.tiles = d->tiles,
                         .split_blocks = d->channel_tiles.divisor,
                         .resident = d->resident(chip),
                         .cycles = d->cycles(chip) * chip.multiprocessors * kLanes,
                         .launch_ms = kImagesLaunchMs,
                         .begin_tiles = kBeginTiles + d->lead()};
  }
  if (kernel == Kernel::kChannels) {
    const auto d = make_depthwise_nhwc(problem, direction);
    if (!d) return std::nullopt;
    const SpanModel& model = wgrad ? kSpanWgrad : kSpanGather;
    return work_of(d->tiles, d->channel_tiles.divisor,
                   resident_blocks(d->w.taps, d->threads(), 0, chip), cycles_of(*d, model),
                   model.launch_ms);
  }
  if (kernel == Kernel::kLines) return lines_work(problem, direction);
  const PlaneModel& model = plane_model(problem.type, wgrad);
  if (wgrad) {
    const auto g = make_depthwise_wgrad(problem);
    if (!g) return std::nullopt;
    return work_of(g->tiles, g->d.channels.divisor,
                   resident_blocks(g->d.w.taps, g->d.threads, g->d.shared_bytes, chip),
                   cycles_of(g->d, model), model.launch_ms);
  }
  const auto d = make_depthwise(problem, direction);
  if (!d) return std::nullopt;
  return work_of(d->blocks, 1, 1, cycles_of(*d, model), model.launch_ms);
}

}  // namespace haloconv::depthwise
