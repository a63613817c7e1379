#include "conv2d/families/channels_last/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/families/channels_last/costs.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::sm90::channels_last {

namespace {

constexpr int64_t kUnit = 8;  // elements of 16 bytes, which the copy engine takes

// A broadcast dimension, of stride 0, is none for the copy engine.
bool is_multiple(int64_t extent, int64_t stride) {
  return extent == 1 || (stride > 0 && stride % kUnit == 0);
}

// Whether a tensor's channels lie side by side and its other neighbours whole 16 bytes apart.
bool is_copied(const Strides& strides, int64_t n, int64_t h, int64_t w) {
  return strides.c == 1 && is_multiple(n, strides.n) && is_multiple(h, strides.h) &&
         is_multiple(w, strides.w);
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << plan.direction << (plan.by_windows() ? " windows" : " columns")
     << " tile=" << plan.tile.pixels << 'x' << plan.tile.channels;
  if (plan.by_windows()) {
    const WindowArguments& args = std::get<WindowLaunch>(plan.launch).args;
    os << " block=" << args.block_rows << 'x' << args.block_columns
       << " stages=" << args.window_stages << '+' << args.filter_stages
       << (args.resident ? " resident" : "");
  } else {
    os << " stages=" << std::get<1>(plan.launch).front().args.stages;
  }
  return os << " workspace=0";
}

std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  if (chip.compute_capability != 90) {
    return "the device's compute capability is " +
           compute_capability_text(chip.compute_capability) + ", not 9.0";
  }
  if (direction == Direction::kWgrad) return "it is a weight gradient";
  if (problem.type != DataType::kFloat16 && problem.type != DataType::kBFloat16) {
    return "the element type is neither float16 nor bfloat16";
  }
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (problem.groups != 1) return "it has groups";
  if (problem.c % kUnit != 0 || problem.k % kUnit != 0) {
    return "input or output channels are no multiple of 8";
  }
  if (!is_copied(problem.input, problem.n, problem.h, problem.w) ||
      !is_copied(problem.output, problem.n, problem.p(), problem.q()) ||
      !is_copied(problem.filter, problem.k, problem.r, problem.s)) {
    return "channels are not innermost, or other strides are no positive multiples of 8";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  // Rows of the filter's tile in memory, 64 channels if there are so many.
  const bool has_short_rows = problem.group_c() < kChunkChannels;
  std::vector<Plan> plans;
  for (const Tile& tile : kWindowTiles) {
    std::optional<WindowLaunch> launch =
        make_window_launch(problem, direction, tile, chip.multiprocessors);
    if (!launch) continue;
    const WindowArguments& args = launch->args;
    const double taps = args.taps_h * args.taps_w;
    const double filter = args.resident ? 0 : tile.channels * kPixelBytes;
    const Work work{.tile = tile,
                    .tiles = double(args.tiles),
                    .steps = args.chunks * taps,
                    .step_bytes = args.boxes * args.box_bytes / taps + filter,
                    .stages = args.resident
                                  ? args.window_stages * taps
                                  : std::min<double>(args.filter_stages, args.window_stages * taps),
                    .short_rows = args.resident || !has_short_rows ? 0.0 : tile.channels};
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .launch = std::move(*launch),
                     .estimated_ms = call_ms(problem, chip, launch_ms(work, chip), 1)});
  }
  for (const Tile& tile : kTiles) {
    std::vector<Launch> launches = make_launches(problem, direction, tile, chip.multiprocessors);
    double tiles_ms = 0;
    bool fits = true;
    for (const Launch& launch : launches) {
      fits = fits && launch.fits;
      const Arguments& args = launch.args;
      const double chunks = ceil_div(args.channels, tile.depth);
      double steps = 0;
      for (int32_t i = 0; i < args.phases; ++i) {
        const TilePhase& phase = args.phase[i];
        steps += phase.taps_h * phase.taps_w * chunks * ceil_div(phase.pixels, tile.pixels);
      }
      const double tiles = args.tiles;
      const Work work{.tile = tile,
                      .tiles = tiles,
                      .steps = steps * args.channel_tiles.divisor / tiles,
                      .step_bytes = (tile.pixels + tile.channels) * kPixelBytes * 1.0,
                      .stages = double(args.stages),
                      .short_rows = has_short_rows ? tile.channels : 0.0};
      tiles_ms += launch_ms(work, chip);
    }
    if (!fits) continue;
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .launch = std::move(launches),
                     .estimated_ms = call_ms(problem, chip, tiles_ms, launches.size())});
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; });
  return plans;
}

}  // namespace haloconv::sm90::channels_last
