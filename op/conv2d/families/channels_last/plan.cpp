#include "conv2d/families/channels_last/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "conv2d/families/channels_last/costs.h"
#include "conv2d/families/channels_last/phases.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/hopper_channels.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

// Elements of 16 bytes, which the copy engine takes.
int64_t unit_of(DataType type) { return 16 / size_of(type); }

// Narrow windows are for so few channels of the source; a tile of the usual depth has wide ones.
bool is_of_use(const Tile& tile, int64_t element_bytes, int64_t source_channels) {
  if (tile.element_bytes != element_bytes) return false;
  const bool is_narrow = tile.row_bytes() < kStageRowBytes;
  return !is_narrow || (source_channels <= tile.depth && source_channels > tile.depth / 2) ||
         (source_channels < tile.depth && tile.depth == 16);
}

// The work of a launch by columns of pixels.
Work work_of(const Launch& launch, const Tile& tile, bool has_short_rows) {
  const Arguments& args = launch.args;
  const double chunks = static_cast<double>(ceil_div(args.channels, tile.depth));
  double steps = 0, multiplied = 0;
  for (int32_t i = 0; i < args.phases; ++i) {
    const TilePhase& phase = args.phase[i];
    const int32_t end = i + 1 < args.phases ? args.phase[i + 1].first_tile
                                            : args.tiles / args.channel_tiles.divisor;
    const double pixel_tiles = end - std::max(phase.first_tile, 0);
    steps += phase.taps_h * phase.taps_w * chunks * pixel_tiles;
    if (phase.taps_h > 0) multiplied += pixel_tiles;
  }
  const double channel_tiles = static_cast<double>(args.channel_tiles.divisor);
  const double tiles = tile.alternates && multiplied > 0 ? multiplied * channel_tiles : args.tiles;
  double short_rows = has_short_rows ? tile.channels : 0.0;
  if (tile.alternates) {
    // The copy engine takes longer for rows that it fills up with zeros, and for rows of zeros. In
    // other tiles that is a part of what was fitted.
    if (args.channels % tile.depth != 0) short_rows += 0.5 * (tile.pixels + tile.channels) / chunks;
    short_rows += 0.25 * (channel_tiles * tile.channels - args.results.channels);
  }
  return {.tile = tile,
          .tiles = tiles,
          .steps = steps * channel_tiles / tiles,
          .step_bytes = double(stage_bytes(tile)),
          .stages = double(args.stages),
          .short_rows = short_rows,
          .results = args.tiles / tiles,
          .copies_results = launch.copies_results};
}

// The plan whose tiles blocks share that is expected to be the fastest, for a launch that leaves
// half of all multiprocessors idle or more.
std::optional<Plan> split_plan(const CallModel& calls, const std::vector<Launch>& launches,
                               const Tile& tile, const Chip& chip, bool has_short_rows) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  constexpr int kMostWaves = 4;
  const int64_t tiles = launches.front().args.tiles, multiprocessors = chip.multiprocessors;
  if (launches.size() != 1 || tiles > multiprocessors) return std::nullopt;
  std::optional<Plan> best;
  for (int wave = 1; wave <= kMostWaves; ++wave) {
    const int64_t splits = std::max<int64_t>(2, multiprocessors * wave / tiles);
    std::optional<SplitLaunch> launch =
        make_split_launch(launches.front(), tile, splits, chip.multiprocessors);
    if (!launch || launch->args.partial_bytes() > kMostBytes) continue;
    const SplitArguments& args = launch->args;
    Work work = work_of(launch->launch, tile, has_short_rows);
    work.tiles *= args.splits;
    work.steps = args.split_stages;
    work.stages = args.args.stages;
    const int64_t partial_bytes = args.partial_bytes();
    const double sums_ms = calls.ms(launch_ms(work, chip), 1, kTilesHide);
    Plan plan{.direction = Direction::kFprop,
              .tile = tile,
              .launch = std::make_shared<const SplitLaunch>(*launch),
              .workspace_bytes = partial_bytes,
              .estimated_ms = sums_ms + splits_ms(static_cast<double>(partial_bytes), chip)};
    if (!best || plan.estimated_ms < best->estimated_ms) best = std::move(plan);
  }
  return best;
}

// Products in TF32 that are turned around.
void add_turned_plans(const Conv2dProblem& problem, Direction direction,
                      const OrderedPhases& phases, const Chip& chip, const CallModel& calls,
                      std::vector<Plan>& plans) {
  for (const Tile& tile : kTurnedTiles) {
    std::optional<TurnedLaunch> turned =
        make_turned_launch(problem, direction, phases, tile, chip.multiprocessors);
    if (!turned) continue;
    double tiles_ms = 0;
    for (const Launch& launch : turned->launches) {
      const Arguments& args = launch.args;
      const bool cuts_lines = args.channel_tiles.divisor > 1 && args.results.channels % 32 != 0;
      tiles_ms += turned_launch_ms(work_of(launch, tile, false), cuts_lines, chip);
    }
    const size_t launches = turned->launches.size();
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .launch = *std::move(turned),
                     .estimated_ms = calls.ms(tiles_ms, launches, kTurnedHide)});
  }
}

// Of 16 bits, whose filter stays in shared memory.
void add_staying_plans(const Conv2dProblem& problem, Direction direction,
                       const OrderedPhases& phases, const Chip& chip, const CallModel& calls,
                       std::vector<Plan>& plans) {
  for (const Tile& tile : kStayingTiles) {
    std::optional<StayingLaunch> staying =
        make_staying_launch(problem, direction, phases, tile, chip.multiprocessors);
    if (!staying) continue;
    Work work = work_of(staying->launch, tile, false);
    // The filter is brought once for all tiles of a block.
    const double rounds = std::ceil(work.tiles / staying->blocks);
    const double rows = tile.pixels + tile.channels / rounds;
    work.short_rows *= rows / (tile.pixels + tile.channels);
    work.step_bytes = rows * kStageRowBytes;
    const double tiles_ms = launch_ms(work, chip);
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .launch = std::make_shared<const StayingLaunch>(*staying),
                     .estimated_ms = calls.ms(tiles_ms, 1, kTilesHide)});
  }
}

// Whose results have their rows innermost.
std::vector<Plan> make_row_plans(const Conv2dProblem& problem, const Chip& chip,
                                 bool has_short_rows) {
  const OrderedPhases phases(problem, Direction::kFprop);
  const CallModel calls(problem, Direction::kFprop, chip);
  std::vector<Plan> plans;
  plans.reserve(2 * std::size(kRowTiles));
  for (const Tile& tile : kRowTiles) {
    const std::vector<Launch> launches =
        make_launches(problem, Direction::kFprop, phases, tile, chip.multiprocessors);
    if (launches.size() != 1 || !launches.front().fits) continue;
    const Launch& launch = launches.front();
    plans.push_back(
        {.direction = Direction::kFprop,
         .tile = tile,
         .launch = std::make_shared<const RowLaunch>(make_row_launch(problem, launch, tile)),
         .estimated_ms =
             calls.ms(launch_ms(work_of(launch, tile, has_short_rows), chip), 1, kTilesHide)});
    if (!adds_row_splits(problem) || std::ranges::count(kSplitTiles, tile) == 0) continue;
    if (auto split = split_plan(calls, launches, tile, chip, has_short_rows)) {
      const SplitLaunch& shares = *std::get<Kept<SplitLaunch>>(split->launch);
      split->launch = std::make_shared<const RowLaunch>(make_row_launch(problem, shares));
      plans.push_back(*std::move(split));
    }
  }
  return plans;
}

}  // namespace

bool Plan::copies_residual() const {
  if (const auto* windows = std::get_if<WindowLaunch>(&launch)) return windows->copies_residual;
  const auto* columns = std::get_if<std::vector<Launch>>(&launch);
  return columns != nullptr && columns->front().copies_residual;
}

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  constexpr const char* kWays[] = {" windows", " columns", " strips", " columns",
                                   " columns", " turned",  " columns"};
  os << plan.direction << kWays[plan.launch.index()] << " tile=" << plan.tile.pixels << 'x'
     << plan.tile.channels << 'x' << plan.tile.depth
     << (plan.tile.alternates ? " alternating" : "");
  if (plan.by_windows()) {
    const WindowArguments& args = std::get<WindowLaunch>(plan.launch).args;
    os << " block=" << args.block_rows << 'x' << args.block_columns
       << (args.boxes == 1 && !args.is_flat ? " shared" : "") << " stages=" << args.window_stages
       << '+' << args.filter_stages << (args.resident ? " resident" : "");
  } else if (const auto* strips = std::get_if<StripLaunch>(&plan.launch)) {
    const StripArguments& args = strips->args;
    os << " rows=" << strips->sum_rows << " strip=" << args.strip_images << 'x'
       << args.strip_columns << " stages=" << args.stages;
  } else if (const auto* shares = std::get_if<Kept<SplitLaunch>>(&plan.launch)) {
    os << " stages=" << (*shares)->args.args.stages << " splits=" << (*shares)->args.splits;
  } else if (const auto* rows = std::get_if<Kept<RowLaunch>>(&plan.launch)) {
    const SplitArguments& of_rows = (*rows)->args.shares;
    os << " stages=" << of_rows.args.stages;
    if (of_rows.splits > 1) os << " splits=" << of_rows.splits;
    os << " rows";
  } else if (const auto* staying = std::get_if<Kept<StayingLaunch>>(&plan.launch)) {
    os << " stages=" << (*staying)->launch.args.stages << '+' << (*staying)->filter_units
       << " resident";
  } else if (const auto* turned = std::get_if<TurnedLaunch>(&plan.launch)) {
    os << " stages=" << turned->launches.front().args.stages;
  } else {
    os << " stages=" << std::get<std::vector<Launch>>(plan.launch).front().args.stages;
  }
  if (plan.copies_residual()) os << " residual=copied";
  if (plan.columns > 1) os << " folded=" << plan.columns;
  return os << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32,
                     const Chip& chip) {
  if (std::string reason = hopper_channels_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (direction == Direction::kWgrad) return "it is a weight gradient";
  if (direction == Direction::kDgrad && problem.type == DataType::kFloat32 &&
      problem.k * problem.r * problem.s * problem.c >= int64_t{1} << 31) {
    return "the filter has 2^31 elements or more";
  }
  const int64_t unit = unit_of(problem.type);
  const std::string multiple = "multiple" + std::string(unit == 8 ? " of 8" : " of 4");
  if (problem.c % unit != 0 || problem.k % unit != 0) {
    return "input or output channels are no " + multiple;
  }
  if (!is_for_copy_engine(problem.input, problem.n, problem.h, problem.w, unit) ||
      (!writes_rows(problem, direction) &&
       !is_for_copy_engine(problem.output, problem.n, problem.p(), problem.q(), unit)) ||
      !is_for_copy_engine(problem.filter, problem.k, problem.r, problem.s, unit)) {
    return "channels are not innermost, or other strides are no positive multiples of " +
           std::string(unit == 8 ? "8" : "4");
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  const int64_t element_bytes = size_of(problem.type);
  const int64_t source_channels =
      direction == Direction::kFprop ? problem.group_c() : problem.group_k();
  const int64_t destination_channels =
      direction == Direction::kFprop ? problem.group_k() : problem.group_c();
  // Rows of the filter's tile in memory, 128 bytes if there are so many.
  const bool has_short_rows = problem.group_c() * element_bytes < kStageRowBytes;
  if (writes_rows(problem, direction)) {
    std::vector<Plan> plans = make_row_plans(problem, chip, has_short_rows);
    sort_fastest_first(plans);
    return plans;
  }
  // Of float32 dgrad has a transposed filter.
  const bool transposes = direction == Direction::kDgrad && element_bytes == 4;
  const int64_t workspace_bytes =
      transposes ? problem.k * problem.r * problem.s * problem.group_c() * element_bytes : 0;
  constexpr double kTransposedRate = 0.8;  // of a copy's
  const double transposed_ms =
      2.0 * static_cast<double>(workspace_bytes) / (chip.memory_rate * kTransposedRate) * 1e3;
  const size_t other_launches = transposes ? 1 : 0;
  const OrderedPhases phases(problem, direction);
  const CallModel calls(problem, direction, chip);
  std::vector<Plan> plans;
  plans.reserve(std::size(kWindowTiles) + std::size(kStripTiles) + 2 * std::size(kTiles) +
                std::max(std::size(kTurnedTiles), std::size(kStayingTiles)));
  for (const Tile& tile : kWindowTiles) {
    const bool is_for_few = tile.channels == 32;
    if (is_for_few && destination_channels > tile.channels) continue;
    if (!is_of_use(tile, element_bytes, source_channels)) continue;
    std::optional<WindowLaunch> launch =
        make_window_launch(problem, direction, phases, tile, chip.multiprocessors);
    if (!launch) continue;
    const WindowArguments& args = launch->args;
    const double taps = args.taps_h * args.taps_w;
    const double filter = args.resident ? 0 : tile.channels * tile.row_bytes();
    const Work work{.tile = tile,
                    .tiles = double(args.tiles),
                    .steps = args.chunks * taps,
                    .macs_deep = 64.0 * tile.row_bytes() / kStageRowBytes,
                    .windows = 1 / taps,
                    .step_bytes = args.boxes * args.box_bytes / taps + filter,
                    .stages = args.resident
                                  ? args.window_stages * taps
                                  : std::min<double>(args.filter_stages, args.window_stages * taps),
                    .short_rows = args.resident || !has_short_rows ? 0.0 : tile.channels};
    const bool is_wide_resident = args.resident && tile.channels == 256 && element_bytes == 2;
    const double share = (args.prefetched_windows > 0 ? kPrefetchedTime : 1) *
                         (is_wide_resident ? kWideResidentTime : 1) *
                         (tile.alternates ? kWindowTurnsTime : 1);
    plans.push_back(
        {.direction = direction,
         .tile = tile,
         .launch = std::move(*launch),
         .workspace_bytes = workspace_bytes,
         .estimated_ms = transposed_ms +
                         share * calls.ms(launch_ms(work, chip), 1 + other_launches, kTilesHide)});
  }
  bool has_strips = false;
  for (const StripTile& strip : kStripTiles) {
    if (!is_of_use(strip.tile, element_bytes, source_channels)) continue;
    std::optional<StripLaunch> launch =
        make_strip_launch(problem, phases, strip, chip.multiprocessors);
    // Several tiles are for want of a wider one.
    if (!launch || (has_strips && launch->args.channel_tiles.divisor > 1)) continue;
    has_strips = true;
    const double strips_ms = strips_launch_ms(strip, launch->args, chip);
    plans.push_back(
        {.direction = direction,
         .tile = strip.tile,
         .launch = std::move(*launch),
         .workspace_bytes = workspace_bytes,
         .estimated_ms = transposed_ms + calls.ms(strips_ms, 1 + other_launches, kStripsHide)});
  }
  for (const Tile& tile : kTiles) {
    if (tile.element_bytes != element_bytes) continue;
    std::vector<Launch> launches =
        make_launches(problem, direction, phases, tile, chip.multiprocessors);
    double tiles_ms = 0;
    bool fits = true;
    for (const Launch& launch : launches) {
      fits = fits && launch.fits;
      tiles_ms += launch_ms(work_of(launch, tile, has_short_rows), chip);
    }
    if (!fits) continue;
    if (direction == Direction::kFprop && std::ranges::count(kSplitTiles, tile) > 0) {
      if (auto split = split_plan(calls, launches, tile, chip, has_short_rows)) {
        plans.push_back(*std::move(split));
      }
    }
    const size_t launch_count = launches.size() + other_launches;
    const double prefetched = launches.front().args.prefetched_stages > 0 ? kPrefetchedTime : 1;
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .launch = std::move(launches),
                     .workspace_bytes = workspace_bytes,
                     .estimated_ms = transposed_ms +
                                     prefetched * calls.ms(tiles_ms, launch_count, kTilesHide)});
  }
  if (element_bytes == 4) {
    add_turned_plans(problem, direction, phases, chip, calls, plans);
  } else {
    add_staying_plans(problem, direction, phases, chip, calls, plans);
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::sm90::channels_last
