#include "conv2d/families/implicit_gemm/arguments.h"

#include <algorithm>
#include <bit>

#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/lowering.h"
#include "conv2d/families/implicit_gemm/staged/costs.h"
#include "conv2d/families/implicit_gemm/staged/wide_lines.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/warp_instruction.h"

namespace haloconv::implicit_gemm {

bool has_units(const Conv2dProblem& problem) {
  return lies_in_units(problem, kUnitBytes / size_of(problem.type));
}

bool filter_lies_packed(const Conv2dProblem& problem, Direction direction) {
  const int64_t c = problem.group_c();
  const Strides& filter = problem.filter;
  return direction == Direction::kFprop && filter.c == 1 && (problem.s == 1 || filter.w == c) &&
         (problem.r == 1 || filter.h == problem.s * c) && filter.n == problem.r * problem.s * c;
}

Lowering::Lowering(const Conv2dProblem& problem, Direction direction)
    : type(problem.type), gather(make_gather(problem, direction)) {
  units = static_cast<int32_t>(ceil_div(gather.channels, unit_elements(type)));
  for (const Phase& phase : make_phases(problem, direction)) {
    phases.push_back({phase, taps});
    const int32_t of_phase = phase.h.taps * phase.w.taps;
    taps += of_phase;
    most_taps = std::max(most_taps, of_phase);
  }
  if (phases.size() == 1) return;
  std::stable_sort(phases.begin(), phases.end(), [](const OrderedPhase& a, const OrderedPhase& b) {
    return a.phase.h.taps * a.phase.w.taps > b.phase.h.taps * b.phase.w.taps;
  });
}

namespace {

// Whether both have as many tiles. Most phases are like the one before.
bool are_alike(const Phase& a, const Phase& b) {
  return a.h.pixels == b.h.pixels && a.w.pixels == b.w.pixels;
}

// `tiles_of` says how many tiles a phase's pixels take. With `chunk_units` the filter is packed as
// fragments, for chunks of so many units.
template <class TilesOf>
std::vector<Arguments> make_launches(const Lowering& lowering, const Tile& tile,
                                     int32_t chunk_units, TilesOf tiles_of) {
  const Gather& gather = lowering.gather;
  const int32_t unit = unit_elements(lowering.type);
  const auto units =
      static_cast<int32_t>(round_up(lowering.units, std::max(chunk_units, int32_t{1})));
  const int64_t tiled_rows = round_up(gather.rows, tile.channels);
  const int64_t packed_rows = chunk_units > 0 ? tiled_rows : gather.rows;
  const int64_t tap_elements = int64_t{units} * unit * packed_rows;  // of the filter
  const int64_t channel_tiles = tiled_rows / tile.channels;
  const int64_t most_tiles = INT32_MAX / channel_tiles / gather.groups;
  const std::vector<Lowering::OrderedPhase>& phases = lowering.phases;
  std::vector<Arguments> launches;
  launches.reserve(ceil_div(std::ssize(phases), kPhasesOfLaunch));
  for (size_t first = 0; first < phases.size(); first += kPhasesOfLaunch) {
    Arguments& args = launches.emplace_back();
    args.geometry = gather;
    args.filter_group = lowering.taps * tap_elements;
    args.channel_units = FastDiv(units);
    args.channel_tiles = FastDiv(channel_tiles);
    args.phase_count =
        static_cast<int32_t>(std::min<size_t>(kPhasesOfLaunch, phases.size() - first));
    int64_t tiles = 0, of_phase = 0;
    for (int32_t i = 0; i < args.phase_count; ++i) {
      const Lowering::OrderedPhase& of = phases[first + i];
      Phase& phase = args.phases[i];
      phase = of.phase;
      phase.reduction = phase.h.taps * phase.w.taps * units * unit;
      phase.packed_offset = of.taps_before * tap_elements;
      phase.first_tile = static_cast<int32_t>(tiles);
      if (i == 0 || !are_alike(phase, args.phases[i - 1])) of_phase = tiles_of(phase);
      tiles += of_phase;
      if (tiles > most_tiles) return {};
    }
    args.pixel_tiles = static_cast<uint32_t>(tiles);
  }
  return launches;
}

Patches patches_of(const Phase& phase, const Tile& tile, const Windows& windows) {
  return {FastDiv(ceil_div(phase.h.pixels, windows.patch_rows(tile.pixels))),
          FastDiv(ceil_div(phase.w.pixels, windows.patch_columns()))};
}

}  // namespace

std::vector<Arguments> make_arguments(const Conv2dProblem& problem, Direction direction,
                                      const Tile& tile, int stages) {
  return make_arguments(Lowering(problem, direction), tile, stages);
}

std::vector<Arguments> make_arguments(const Lowering& lowering, const Tile& tile, int stages) {
  std::vector<Arguments> launches =
      make_launches(lowering, tile, /*chunk_units=*/0,
                    [&](const Phase& phase) { return ceil_div(phase.pixels, tile.pixels); });
  for (Arguments& args : launches) args.stages = stages;
  return launches;
}

std::vector<Arguments> make_window_arguments(const Conv2dProblem& problem, Direction direction,
                                             const Tile& tile, Access access, int log_units,
                                             int log_columns, bool shifts_rows) {
  return make_window_arguments(Lowering(problem, direction), tile, access, log_units, log_columns,
                               shifts_rows);
}

std::vector<Arguments> make_window_arguments(const Lowering& lowering, const Tile& tile,
                                             Access access, int log_units, int log_columns,
                                             bool shifts_rows) {
  const Gather& g = lowering.gather;
  if (g.axis_h.source_step != 1 || g.axis_w.source_step != 1 || lowering.most_taps < 2) return {};
  Windows windows{};
  windows.log_units = log_units;
  windows.log_columns = log_columns;
  const bool is_staged = access == Access::kElements;
  const auto tiles_of = [&](const Phase& phase) {
    if (phase.pixels == 0) return int64_t{0};
    return phase.pixels / phase.plane.divisor *
           ceil_div(phase.h.pixels, windows.patch_rows(tile.pixels)) *
           ceil_div(phase.w.pixels, windows.patch_columns());
  };
  std::vector<Arguments> launches =
      make_launches(lowering, tile, is_staged ? windows.units() : 0, tiles_of);
  if (launches.empty()) return launches;
  const auto element_bytes = static_cast<int32_t>(size_of(lowering.type));
  // A whole unit's address: what the tensor's is the launch sees.
  const int32_t granule =
      is_staged ? granule_of(g.source, element_bytes, kUnitBytes) : element_bytes;
  // Units bring neighbours in memory, so that a row's pixels must be such.
  shifts_rows &= is_staged && g.source.w == 1 && shifting_pays(granule);
  int64_t rows = 0, columns = 0;
  int32_t least_fill = INT32_MAX;  // steps
  for (Arguments& args : launches) {
    args.shifts_rows = shifts_rows;
    args.staging.granule_pixels = (shifts_rows ? kWordBytes : granule) / element_bytes;
    windows.chunks = static_cast<int32_t>(ceil_div(args.channel_units.divisor, windows.units()));
    for (int32_t i = 0; i < args.phase_count; ++i) {
      const Phase& phase = args.phases[i];
      if (phase.reduction == 0) continue;
      least_fill = std::min(least_fill, fill_steps(windows.depths(phase.taps.divisor)));
      rows = std::max<int64_t>(
          rows, windows.patch_rows(tile.pixels) + tap_reach(phase.h.taps, g.axis_h.shift_step));
      columns = std::max<int64_t>(columns, window_lead(args, phase) + windows.patch_columns() +
                                               tap_reach(phase.w.taps, g.axis_w.shift_step));
    }
  }
  if (!is_staged && windows.chunks > 1 && least_fill < 1) return {};
  constexpr int64_t kMostBytes = 1 << 20;  // more than any chip has
  const int64_t pitch = round_up(columns, 8);
  const int64_t bytes = rows * pitch * windows.units() * kUnitBytes;
  if (bytes > kMostBytes) return {};
  windows.count = !is_staged && windows.chunks > 1 ? 2 : 1;
  windows.bytes = static_cast<int32_t>(bytes);
  windows.pitch = FastDiv(pitch);
  const int32_t step = kWindowThreads >> log_units;
  windows.step_y = windows.pitch.quotient(step);
  windows.step_x = step - windows.step_y * windows.pitch.divisor;
  windows.step = windows.step_y * g.source.h + windows.step_x * g.source.w;
  windows.wrap = g.source.h - pitch * g.source.w;
  for (Arguments& args : launches) {
    args.windows = windows;
    if (is_staged) {
      args.staging = make_staging(windows, element_bytes, granule, tile.threads(), shifts_rows);
    }
    for (int32_t i = 0; i < args.phase_count; ++i) {
      const Phase& phase = args.phases[i];
      if (phase.pixels == 0) continue;
      args.patches[i] = i > 0 && are_alike(phase, args.phases[i - 1])
                            ? args.patches[i - 1]
                            : patches_of(phase, tile, windows);
    }
  }
  return launches;
}

bool has_words(const Gather& geometry, int32_t element_bytes, uintptr_t address) {
  const Strides& to = geometry.destination;
  const uint64_t all =
      static_cast<uint64_t>(to.n | to.c | to.h) * element_bytes | static_cast<uint64_t>(address);
  return to.w == 1 && geometry.axis_w.pixel_step == 1 && all % kWordBytes == 0;
}

int32_t granule_of(const Strides& source, int32_t element_bytes, uintptr_t address) {
  if (source.w != 1) return element_bytes;
  const uint64_t all = static_cast<uint64_t>(source.n | source.c | source.h) * element_bytes |
                       static_cast<uint64_t>(address) | kUnitBytes;
  return static_cast<int32_t>(all & -all);
}

Staging make_staging(const Windows& windows, int32_t element_bytes, int32_t granule, int threads,
                     bool shifts_rows) {
  const int32_t channels = windows.units() * kUnitBytes / element_bytes;
  const int32_t pixels = windows.bytes / kUnitBytes >> windows.log_units;
  Staging staging{};
  if (shifts_rows) {
    const int32_t rows = pixels / windows.pitch.divisor;
    const int32_t row = shifted_row(windows.pitch.divisor, element_bytes);
    staging.granule = kShiftedBytes;
    staging.granule_pixels = kWordBytes / element_bytes;
    staging.line = shifted_line(rows, row);
    staging.row_granules = FastDiv(row / kShiftedBytes);
    staging.granules = rows * staging.row_granules.divisor;
  } else {
    staging.granule = granule;
    staging.granule_pixels = granule / element_bytes;
    staging.line = staged_line(pixels, element_bytes);
    staging.row_granules = FastDiv(windows.pitch.divisor / staging.granule_pixels);
    staging.granules = pixels / staging.granule_pixels;
  }
  staging.bytes = channels * staging.line;
  // As few batches of a thread as can be. Elements, which pass through registers, bring all of a
  // place's channels.
  const bool has_elements = staging.granule < kWordBytes;
  int32_t least = INT32_MAX;
  for (int32_t log = std::countr_zero(static_cast<unsigned>(threads)); log >= 0; --log) {
    const int32_t at_once = kStagedBatch * (threads >> log);  // channels
    if (at_once > channels || (has_elements && threads >> log > 1)) break;
    const auto batches =
        static_cast<int32_t>(ceil_div(staging.granules, 1 << log) * (channels / at_once));
    if (batches >= least) continue;
    least = batches;
    staging.log_threads = log;
  }
  return staging;
}

int shared_bytes(const Tile& tile, const Arguments& args) {
  if (args.windows.count == 0) return shared_bytes(tile, args.stages);
  int behind_factors = args.windows.count * args.windows.bytes + args.staging.bytes;
  if (!has_fragments(args)) behind_factors += kFilterStages * filter_stage_bytes(tile);
  if (args.windows.log_columns == kLogWideColumns) {
    constexpr int kMostElementBytes = 4;
    behind_factors =
        std::max(behind_factors, tile.threads() / 32 * wide_slice_bytes(kMostElementBytes));
  }
  return std::max(result_bytes(tile), factor_bytes(tile) + behind_factors);
}

int64_t packed_elements(const std::vector<Arguments>& launches) {
  const Arguments& args = launches.front();
  return args.filter_group * args.geometry.groups;
}

int64_t fragment_elements(const std::vector<Arguments>& launches, const Tile& tile, DataType type) {
  return packed_elements(launches) +
         depth_fragments(launches.front(), tile.channels) * (kFragmentBytes / size_of(type));
}

}  // namespace haloconv::implicit_gemm
