#include "conv2d/families/wgrad/estimate.h"

#include <algorithm>
#include <cmath>

#include "chip/scale.h"
#include "chip/waves.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::wgrad {

namespace {

// The model's constants, fitted to 2867 times on an H200, and kBoxRowCycles to 3240:
// benchmarks/NOTES.md. chip/scale.h scales the rates to other chips.
constexpr double kClockHz = 1.65e9;
constexpr double kBatchCycles = 690;   // for a load warp to bring a batch of cells
constexpr double kCopyCycles = 13;     // for the load warps to start 128 copies
constexpr double kRegisterCopies = 4;  // times as long: less than an asynchronous copy takes
// For the copy engine to bring a row of a box; the second of rows that begin at 8 bytes of 16.
constexpr double kBoxRowCycles[] = {0.3, 0.9};
// Copies of less than 16 bytes go through the L1 cache: so long its lines are taken.
constexpr double kCacheCycles = 700;
constexpr double kBytesPerMs = 3.6e9;
constexpr double kPartialBytesPerMs = 1.1e9;  // partial sums, there and back
constexpr double kLaunchMs = 0.006;           // two kernels
constexpr double kCacheBytes = 28 << 10, kMoreCacheBytes = 92 << 10;

}  // namespace

Rates::Rates(double bytes, const Chip& chip)
    : clock_hz(kClockHz * clock_scale(chip)),
      partial_bytes_per_ms(kPartialBytesPerMs * memory_scale(chip)),
      memory_ms(bytes / (kBytesPerMs * memory_scale(chip))),
      multiprocessors(chip.multiprocessors) {}

double Rates::ms_of(double cycles, double partial_ms) const {
  const double compute_ms = cycles / clock_hz * 1e3;
  // std::hypot would be glibc 2.35's, and the wheel is for 2.34.
  return std::sqrt(compute_ms * compute_ms + memory_ms * memory_ms) + partial_ms + kLaunchMs;
}

double Rates::cycles_within(double ms, double partial_ms) const {
  constexpr double kRounding = 1e-9;
  const double all_ms = ms * (1 + kRounding) - partial_ms - kLaunchMs;
  const double squared = all_ms * all_ms - memory_ms * memory_ms;
  return all_ms > 0 && squared > 0 ? std::sqrt(squared) * clock_hz / 1e3 * (1 + kRounding) : 0;
}

double mean_steps(int32_t q, int32_t segment, int32_t group_pixels) {
  const int32_t whole = q / segment;
  const double steps = group_pixels / 2.0;
  const int32_t short_pixels = q - whole * segment;
  if (short_pixels == 0) return steps;
  const double of_short = std::ceil(std::min(short_pixels, group_pixels) / 2.0);
  return (whole * steps + of_short) / (whole + 1);
}

Copies copies_of(const Arguments& args) {
  if (args.boxes) {
    return {.cycles = kBoxRowCycles[args.row_maps - 1] * kBoxSegments * args.segment_boxes *
                      args.tile_rows};
  }
  const int64_t element_bytes = 16 / args.segments;
  const int64_t rows = std::min(args.tile_rows, args.rows);
  const int64_t vectors = int64_t{args.segment} / args.output_vector * args.segments;
  const int64_t threads = std::min<int64_t>(vectors, kLoadThreads);  // of a row
  Copies copies{.cycles = static_cast<double>(ceil_div(vectors, threads) *
                                              ceil_div(rows, kLoadThreads / threads)) *
                          kCopyCycles};
  if (args.output_vector * element_bytes == 16) return copies;
  copies.cached_bytes = static_cast<double>(rows * args.segment * 16);
  const bool by_registers = args.output_vector * element_bytes < 4;
  if (by_registers) copies.cycles *= kRegisterCopies;
  return copies;
}

double Copies::cycles_with(int64_t shared) const {
  const double cache = shared <= kLessShared ? kMoreCacheBytes : kCacheBytes;
  return std::max(cycles, cached_bytes / cache * kCacheCycles);
}

double load_cycles(const Arguments& args, int segment, const Walks& walks) {
  // Lines to load for a strip, on average: a walk's first strip loads the whole window, and where
  // it passes an image's end.
  const int32_t fresh = std::min(args.line_step, args.window_lines);
  const double whole_windows = 1 + (args.line_step < args.window_lines ? walks.restarts : 0);
  const double lines = fresh + (args.window_lines - fresh) * whole_windows / walks.walk_rows;
  const int32_t columns =
      args.left_columns + segment + (args.runs_of_class * args.mma_taps - 1) * args.shift_step;
  const double batches =
      lines * args.bundles() * ceil_div_32(columns, batch_columns(args.input_vector)) / kLoadWarps;
  return batches * kBatchCycles;
}

double estimate_ms(const Rates& rates, int64_t workspace_bytes, const Arguments& args,
                   double strip) {
  const double waves = waves_of(static_cast<double>(args.blocks()), rates.multiprocessors);
  const double cycles = waves * (args.split_strips * strip + kBlockCycles);
  return rates.ms_of(cycles, static_cast<double>(workspace_bytes) / rates.partial_bytes_per_ms);
}

bool is_bound_by_bytes(const Rates& rates, double estimated_ms) {
  return rates.memory_ms > estimated_ms / 2;
}

}  // namespace haloconv::wgrad
