#include "conv2d/depthwise_work.h"

#include <algorithm>

#include "conv2d/depthwise.h"
#include "conv2d/depthwise_nhwc.h"

namespace haloconv {

namespace {

// Fitted to times on an H200: benchmarks/NOTES.md. With rows innermost, in a thread's cycles: its
// outputs of a row meet a row of taps; each of these taps; an element of a window is brought.
constexpr double kRowCycles = 30;
constexpr double kTapCycles = 1.4;
constexpr double kCellCycles = 41;
constexpr double kWgradFactor = 1.35;  // of fprop's cycles
constexpr double kLaunchMs = 0.004;
constexpr double kWgradLaunchMs = 0.0074;

// With channels innermost: a multiply-add, an element of a strip's window, a row of it.
struct StripModel {
  double tap_cycles, cell_cycles, row_cycles, launch_ms;
};
constexpr StripModel kStripGather = {1.84, 10.2, 45, 0.007};
constexpr StripModel kStripWgrad = {2.72, 0, 168, 0.010};

// Of one tile.
double cycles_of(const Depthwise& d) {
  const double rows = static_cast<double>(d.threads) * kDepthwiseRows * d.h.taps;
  const double cells = static_cast<double>(d.tile_planes) * d.h.window * d.pitch;
  return rows * (kRowCycles + kTapCycles * d.w.taps) + cells * kCellCycles;
}

double cycles_of(const DepthwiseNhwc& d, const StripModel& model) {
  const double rows = d.tile_rows * d.h.step + d.h.taps - 1;
  const double cells = rows * ((kStripColumns - 1) * d.w.step + d.w.taps);
  const double taps = static_cast<double>(d.tile_rows) * kStripColumns * d.h.taps * d.w.taps;
  return d.threads() *
         (taps * model.tap_cycles + cells * model.cell_cycles + rows * model.row_cycles);
}

// Blocks of wgrad on a multiprocessor, by their threads' registers.
int32_t resident_blocks(Kernel kernel, int32_t taps, int32_t threads) {
  const int32_t most = kernel == Kernel::kDepthwise || taps == 7 ? 512 : taps == 5 ? 768 : 1024;
  return std::max(1, most / threads);
}

DepthwiseWork work_of(int64_t tiles, int64_t split_blocks, int32_t resident, double cycles,
                      double launch_ms) {
  const double blocks = static_cast<double>(tiles) * static_cast<double>(split_blocks);
  return {tiles, split_blocks, resident, blocks * cycles, launch_ms};
}

}  // namespace

std::optional<DepthwiseWork> depthwise_work(const Conv2dProblem& problem, Direction direction,
                                            Kernel kernel) {
  const bool wgrad = direction == Direction::kWgrad;
  if (kernel == Kernel::kDepthwiseNhwc) {
    const auto d = make_depthwise_nhwc(problem, direction);
    if (!d) return std::nullopt;
    const StripModel& model = wgrad ? kStripWgrad : kStripGather;
    return work_of(d->tiles, d->channel_tiles.divisor,
                   resident_blocks(kernel, d->w.taps, d->threads()), cycles_of(*d, model),
                   model.launch_ms);
  }
  if (wgrad) {
    const auto g = make_depthwise_wgrad(problem);
    if (!g) return std::nullopt;
    return work_of(g->tiles, g->d.channels.divisor,
                   resident_blocks(kernel, g->d.w.taps, g->d.threads),
                   kWgradFactor * cycles_of(g->d), kWgradLaunchMs);
  }
  const auto d = make_depthwise(problem, direction);
  if (!d) return std::nullopt;
  return work_of(d->blocks, 1, 1, cycles_of(*d), kLaunchMs);
}

}  // namespace haloconv
