#include "conv2d/families/depthwise/patches.h"

#include <algorithm>

#include "conv2d/families/depthwise/at_once.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

constexpr int64_t kMostSharedBytes = 48 * 1024;  // what a block has without asking for more
constexpr int32_t kPatchesOfBlock = 16;          // along an axis, at most

void begin_at_a_tap(DepthwiseAxis& axis, int32_t& shift) {
  shift = axis.tap_phase;
  axis.outputs += shift;
  axis.tap_phase = 0;
}

// Of a thread, with its share of bringing the window; counted in the machine code.
double instructions_of_thread(const Patches& d) {
  const int columns = patch_columns(d.w.step, d.w.upsampling);
  const double source_rows = d.h.cells(kPatchRows), source_columns = d.w.cells(columns);
  const double taps_h = static_cast<double>(d.h.taps) / d.h.upsampling;
  const double taps_w = static_cast<double>(d.w.taps) / d.w.upsampling;
  const double loads = source_rows * (source_columns * 3 + 10);
  const double sums = kPatchRows * taps_h * (d.w.taps + taps_w * columns * 2);
  const double stores = kPatchRows * columns * 8.0;
  constexpr double kBegin = 100, kWord = 15;
  const double words = static_cast<double>(d.h.window) * d.w.window * d.words;
  return kBegin + loads + sums + stores + words * kWord / d.threads();
}

}  // namespace

double Patches::cycles() const {
  // Fitted to times on an H200 (benchmarks/NOTES.md): instructions of a scheduler in a cycle, and
  // what a block waits for its window and filters.
  constexpr double kIssued = 0.4, kBlockCycles = 6000, kCyclesOfInstruction = 2;
  constexpr int64_t kRegisters = 65536, kOfThread = 112, kWarps = 64, kBlocks = 32;
  constexpr int64_t kSharedBytes = 220 * 1024;
  const int64_t warps = ceil_div(threads(), 32);
  const int64_t resident = std::min({kBlocks, kWarps / warps, kRegisters / (kOfThread * 32 * warps),
                                     kSharedBytes / (shared_bytes() + 1024)});
  const double instructions = instructions_of_thread(*this);
  const double issue =
      static_cast<double>(blocks() * warps) * instructions / (kMultiprocessors * 4 * kIssued);
  const double waves = static_cast<double>(ceil_div(blocks(), kMultiprocessors * resident));
  return std::max(issue, waves * (kBlockCycles + kCyclesOfInstruction * instructions));
}

std::optional<Patches> make_patches(const Conv2dProblem& problem, Direction direction) {
  if (direction == Direction::kWgrad) return std::nullopt;
  if (problem.input.c != 1 || problem.output.c != 1) return std::nullopt;
  const auto axes = make_depthwise_axes(problem, direction);
  if (!axes || axes->rows.divisor != 1) return std::nullopt;
  if (axes->h.taps != axes->w.taps || axes->h.step != axes->w.step || axes->h.step > 2 ||
      axes->h.upsampling != axes->w.upsampling) {
    return std::nullopt;
  }
  Patches d{};
  static_cast<DepthwiseAxes&>(d) = *axes;
  begin_at_a_tap(d.h, d.shift_h);
  begin_at_a_tap(d.w, d.shift_w);
  d.lanes = static_cast<int32_t>(kPixelBytes / size_of(problem.type) / 2);
  d.words = 2 * d.lanes / elements_at_once(problem);
  d.channel_tiles = FastDiv(ceil_div(d.channels.divisor, 2 * d.lanes));

  // The rectangle that takes the least time.
  constexpr int64_t kMostTiles = INT32_MAX / 2;
  const int columns = patch_columns(d.w.step, d.w.upsampling);
  std::optional<Patches> best;
  double least = 0;
  for (int32_t across = 1; across <= kPatchesOfBlock; ++across) {
    set_tiles(d.w, columns, across);
    if (d.w.threads < across) continue;  // as fewer
    for (int32_t down = 1; down <= kPatchesOfBlock; ++down) {
      set_tiles(d.h, kPatchRows, down);
      if (d.h.threads < down) continue;
      if (d.threads() > kPatchThreads || d.shared_bytes() > kMostSharedBytes) break;
      const int64_t of_image = int64_t{d.h.tiles} * d.w.tiles;
      if (of_image > kMostTiles / problem.n) continue;
      d.tiles = static_cast<int32_t>(problem.n * of_image);
      const double cost = d.cycles();
      if (best && cost >= least) continue;
      least = cost;
      best = d;
    }
  }
  if (!best) return std::nullopt;
  best->tiles_h = FastDiv(best->h.tiles);
  best->tiles_w = FastDiv(best->w.tiles);
  best->patches_w = FastDiv(best->w.threads);
  best->window_w = FastDiv(best->w.window);
  return best;
}

}  // namespace haloconv::depthwise
