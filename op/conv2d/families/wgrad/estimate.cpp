#include "conv2d/families/wgrad/estimate.h"

#include <algorithm>
#include <cmath>

#include "chip/scale.h"
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
constexpr double kUnhidden = 0.45;      // of the work beside the longest
constexpr double kStripCycles = 710;    // of a strip beside its work
constexpr double kBlockCycles = 24500;  // first loads, last sums
constexpr double kBytesPerMs = 3.6e9;
constexpr double kPartialBytesPerMs = 1.1e9;  // partial sums, there and back
constexpr double kLaunchMs = 0.006;           // two kernels
constexpr double kCacheBytes = 28 << 10, kMoreCacheBytes = 92 << 10;

// To bring a strip of grad_output.
double copy_cycles(const Arguments& args) {
  const int64_t element_bytes = 16 / args.segments;
  if (args.boxes) {
    return kBoxRowCycles[args.row_maps - 1] * kBoxSegments * args.segment_boxes * args.tile_rows;
  }
  const int64_t rows = std::min(args.tile_rows, args.rows);
  const int64_t vectors = int64_t{args.segment} / args.output_vector * args.segments;
  const int64_t threads = std::min<int64_t>(vectors, kLoadThreads);  // of a row
  const double copies =
      static_cast<double>(ceil_div(vectors, threads) * ceil_div(rows, kLoadThreads / threads)) *
      kCopyCycles;
  if (args.output_vector * element_bytes == 16) return copies;
  const double cache = shared_bytes(args) <= kLessShared ? kMoreCacheBytes : kCacheBytes;
  const auto strip_bytes = static_cast<double>(rows * args.segment * 16);
  const bool by_registers = args.output_vector * element_bytes < 4;
  return std::max(by_registers ? kRegisterCopies * copies : copies,
                  strip_bytes / cache * kCacheCycles);
}

// Steps of a strip, on average.
double mean_steps(const Arguments& args) {
  const int32_t whole = args.q / args.segment;
  const double steps = args.group_pixels() / 2.0;
  const int32_t short_pixels = args.q % args.segment;
  if (short_pixels == 0) return steps;
  const double of_short = std::ceil(std::min(short_pixels, args.group_pixels()) / 2.0);
  return (whole * steps + of_short) / (whole + 1);
}

}  // namespace

double strip_cycles(const Arguments& args, double step_cycles) {
  const double steps = mean_steps(args);
  // Lines to load for a strip, on average: a walk's first strip loads the whole window, and where
  // it passes an image's end.
  const int32_t fresh = std::min(args.line_step, args.window_lines);
  const auto whole_windows =
      1 + std::ranges::count_if(args.restart_steps, [](int32_t step) { return step != kNoStep; });
  const double lines =
      fresh + (args.window_lines - fresh) * static_cast<double>(whole_windows) / args.walk_rows;
  const double batches =
      lines * args.bundles() *
      static_cast<double>(ceil_div(args.plane_columns, batch_columns(args.input_vector))) /
      kLoadWarps;
  const double copies = copy_cycles(args);
  const double work[] = {steps * step_cycles, batches * kBatchCycles, copies};
  const double longest = std::max({work[0], work[1], work[2]});
  return longest + kUnhidden * (work[0] + work[1] + work[2] - longest) + kStripCycles;
}

double least_strip_cycles(const Arguments& args, double step_cycles) {
  return mean_steps(args) * step_cycles + kStripCycles;
}

double estimate_ms(double bytes, int64_t workspace_bytes, const Arguments& args, double strip,
                   const Chip& chip) {
  const double waves = std::ceil(static_cast<double>(args.blocks()) / chip.multiprocessors);
  const double cycles = waves * (args.split_strips * strip + kBlockCycles);
  const double partial = static_cast<double>(workspace_bytes);
  const double compute_ms = cycles / (kClockHz * clock_scale(chip)) * 1e3;
  const double memory_ms = bytes / (kBytesPerMs * memory_scale(chip));
  // std::hypot would be glibc 2.35's, and the wheel is for 2.34.
  return std::sqrt(compute_ms * compute_ms + memory_ms * memory_ms) +
         partial / (kPartialBytesPerMs * memory_scale(chip)) + kLaunchMs;
}

// As if the strips of all tiles were shared out evenly.
double least_ms(double bytes, const Arguments& args, int64_t strips, double strip,
                const Chip& chip) {
  const double tiles = static_cast<double>(args.groups) * args.row_tiles * args.column_tiles();
  const double all = tiles * static_cast<double>(strips) / chip.multiprocessors;
  const double cycles = std::max(all, 1.0) * strip + kBlockCycles;
  const double math_ms = cycles / (kClockHz * clock_scale(chip)) * 1e3;
  const double bytes_ms = bytes / (kBytesPerMs * memory_scale(chip));
  return std::sqrt(math_ms * math_ms + bytes_ms * bytes_ms) + kLaunchMs;
}

bool is_bound_by_bytes(double bytes, double estimated_ms, const Chip& chip) {
  return bytes / (kBytesPerMs * memory_scale(chip)) > estimated_ms / 2;
}

}  // namespace haloconv::wgrad
