#include "conv2d/families/phase_pairs/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/families/phase_pairs/arguments.h"
#include "conv2d/families/phase_pairs/problem_pattern.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::phase_pairs {

namespace {

// Whether the copy engine takes the strides: they must be multiples of 16 bytes.
bool is_copied(int64_t extent, int64_t stride) {
  return extent == 1 || (stride > 0 && stride % 4 == 0);
}

// The bytes that the copy engine takes from the L2 cache for a window: sectors of 32 bytes, of
// which a row may touch one more than it fills.
double window_bytes(const Arguments& args) {
  const double lines = 1.0 * args.box[1] * args.box[2] * args.box[3];
  return lines * (args.box[0] * 4.0 + (args.column_origin % 8 == 0 ? 0 : 32));
}

// The constants were fitted to 124 times on an H100: benchmarks/NOTES.md, "two phases at once".
double estimate_ms(const Conv2dProblem& problem, const Tile& tile, const Arguments& args,
                   const Chip& chip) {
  constexpr double kClockHz = 1.6e9;
  constexpr double kTileCycles = 1900;     // for a tile, beside its chunks
  constexpr double kPairCycles = 11.5;     // the same for each of its pairs, with 64 channels
  constexpr double kChunkCycles = 28;      // for a chunk, beside its copies and products
  constexpr double kL2BytesPerCycle = 34;  // to a multiprocessor
  constexpr double kLaunchMs = 0.004;      // for each of two kernels
  constexpr double kBytesPerMs = 3.3e9;
  constexpr double kPackedBytesPerMs = 1.9e9;
  const double macs_per_cycle = tile.blocks == 1 ? 980 : 830;
  const double pairs = 128.0 * tile.blocks;
  const double at_once = tile.blocks == 1 ? 2 : 1;
  double cycles = 0;  // for a tile, the mean over the phases
  for (int32_t i = 0; i < args.row_phases.divisor; ++i) {
    const RowPhase& phase = args.phase[i];
    const double macs = pairs * phase.step_bytes / 4;
    const double bytes = window_bytes(args) + phase.step_bytes;
    cycles += args.chunks *
              (kChunkCycles / at_once +
               std::max(macs / macs_per_cycle, bytes / (kL2BytesPerCycle * l2_scale(chip))));
  }
  cycles = cycles / args.row_phases.divisor;
  const double beside = kTileCycles + kPairCycles * pairs * tile.channels / 64;
  // If two blocks share a multiprocessor, one writes while the other computes.
  const double of_multiprocessor =
      std::ceil(static_cast<double>(args.tiles) / chip.multiprocessors);
  const double waves = std::ceil(of_multiprocessor / at_once);
  const double all = std::max(of_multiprocessor * cycles + beside, waves * (cycles + beside));
  const double bytes_ms = problem.bytes() / (kBytesPerMs * memory_scale(chip));
  return std::max(all / (kClockHz * clock_scale(chip)) * 1e3, bytes_ms) + kLaunchMs + kLaunchMs +
         static_cast<double>(args.packed_bytes) / (kPackedBytesPerMs * clock_scale(chip));
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const Tile& tile = plan.tile;
  return os << "dgrad phase_pairs pairs=" << tile.images << 'x' << tile.rows << 'x' << tile.columns
            << " channels=" << tile.channels << " shifts=" << tile.pattern.shifts
            << " stages=" << plan.arguments->stages << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& p) {
  if (p.stride_w != 2) return "the stride along rows is not 2";
  if (p.stride_h > kMaxRowPhases) return "the stride along columns is over 4";
  if (p.groups != 1) return "it has groups";
  const Gather gather = make_gather(p, Direction::kDgrad);
  if (gather.axis_h.shift_step != -1 || gather.axis_w.shift_step != -1) return "it has a dilation";
  const auto rows = make_row_phases(p, Direction::kDgrad);
  const auto columns = make_column_phases(p, Direction::kDgrad);
  const auto is_empty = [](const AxisPhase& phase) { return phase.taps == 0; };
  if (columns.size() < 2 || std::any_of(rows.begin(), rows.end(), is_empty) ||
      std::any_of(columns.begin(), columns.end(), is_empty)) {
    return "some pixels meet no tap";
  }
  if (!pattern_of(columns)) return "no kernel has the taps of a row and their padding";
  if (p.input.w != 1) return "the result's rows are not contiguous";
  if (!is_copied(p.p(), p.output.h) || !is_copied(p.k, p.output.c) || !is_copied(p.n, p.output.n)) {
    return "strides of the output's gradient are no positive multiples of 4";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip) {
  const auto columns = make_column_phases(problem, Direction::kDgrad);
  const Pattern pattern = *pattern_of(columns);
  // Columns of pairs. Narrow tiles are only useful for narrow images, and so are several images in
  // a tile.
  constexpr int kMostColumns = 128;
  const int64_t width = columns.front().pixels;
  const int64_t height = make_row_phases(problem, Direction::kDgrad).front().pixels;
  const int least_columns = width <= 4 ? 4 : width <= 8 ? 8 : 16;
  std::vector<Plan> plans;
  const auto add = [&](const Tile& tile) {
    const std::optional<Arguments> args = make_arguments(problem, tile);
    if (!args) return;
    plans.push_back({.tile = tile,
                     .workspace_bytes = args->packed_bytes,
                     .estimated_ms = estimate_ms(problem, tile, *args, chip),
                     .arguments = std::make_shared<const Arguments>(*args)});
  };
  for (const auto& [blocks, channels] : {std::pair{2, 64}, {1, 64}, {2, 32}}) {
    if (channels == 32 && problem.c > 32) continue;
    const int pairs = 128 * blocks;
    for (int columns_of = least_columns; columns_of <= kMostColumns; columns_of *= 2) {
      for (int rows_of = 1; rows_of * columns_of <= pairs; rows_of *= 2) {
        const int images = pairs / columns_of / rows_of;
        const bool has_whole_images = columns_of >= width && rows_of >= height;
        if (images > 1 && !has_whole_images) continue;
        if (rows_of > 1 && rows_of / 2 >= height && columns_of < kMostColumns) continue;
        add({.pattern = pattern,
             .blocks = blocks,
             .channels = channels,
             .columns = columns_of,
             .rows = rows_of,
             .images = images});
      }
    }
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::phase_pairs
