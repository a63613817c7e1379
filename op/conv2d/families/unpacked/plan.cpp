#include "conv2d/families/unpacked/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <ostream>

#include "conv2d/fastest_first.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::unpacked {

namespace {

constexpr int64_t kUnit = 4;       // elements of 16 bytes
constexpr int64_t kMostBox = 256;  // elements of a box along a dimension
constexpr int kLeastStages = 2;

// A dimension of one element has any stride.
bool is_multiple(int64_t extent, int64_t stride) {
  return extent == 1 || (stride > 0 && stride % kUnit == 0);
}

// A window's rows in shared memory, so that the 32 threads of a load have few elements in the same
// bank: eight neighbouring pixels, and taps of which some are one row further.
int64_t pitch_of(int64_t columns, const Conv2dProblem& p) {
  constexpr int64_t kBanks = 32;
  if (p.s % 4 == 0) return round_up(columns, kUnit);
  const int64_t wanted = 8 * p.stride_w % kBanks;
  return columns + ((wanted - columns) % kBanks + kBanks) % kBanks;
}

// The channels of a window: as many as fill a stage of the filter, in whole steps.
int64_t window_channels(const Conv2dProblem& p) {
  const int64_t taps = p.r * p.s, least = kStepDepth / std::gcd(taps, int64_t{kStepDepth});
  return least * std::max<int64_t>(1, kStageDepth / (least * taps));
}

// A tile's pixels: of how many images, rows and columns, as powers of two.
struct Shape {
  int log_columns, log_rows, log_images;
};

std::optional<Box> box_of(const Conv2dProblem& p, const Shape& shape) {
  const auto span = [](int64_t outputs, int64_t stride, int64_t taps, int64_t dilation) {
    return (outputs - 1) * stride + (taps - 1) * dilation + 1;
  };
  const int64_t lead = round_up(p.pad_left, kUnit) - p.pad_left;
  const int64_t columns =
      lead + span(int64_t{1} << shape.log_columns, p.stride_w, p.s, p.dilation_w);
  const int64_t pitch = pitch_of(columns, p);
  const int64_t rows = span(int64_t{1} << shape.log_rows, p.stride_h, p.r, p.dilation_h);
  const int64_t channels = window_channels(p), images = int64_t{1} << shape.log_images;
  if (std::max({pitch, rows, channels, images}) > kMostBox) return std::nullopt;
  return Box{.columns = static_cast<int32_t>(pitch),
             .rows = static_cast<int32_t>(rows),
             .channels = static_cast<int32_t>(channels),
             .images = static_cast<int32_t>(images)};
}

int64_t pixel_tiles(const Conv2dProblem& p, const Shape& shape) {
  return ceil_div(p.q(), int64_t{1} << shape.log_columns) *
         ceil_div(p.p(), int64_t{1} << shape.log_rows) *
         ceil_div(p.n, int64_t{1} << shape.log_images);
}

// Sets how many stages and windows fit in shared memory, the windows for as many steps as the
// filter's stages and one more.
bool set_stages(Arguments& args, const Tile& tile, int64_t room) {
  for (int stages = kMaxStages; stages >= kLeastStages; --stages) {
    args.filter_stages = stages;
    args.window_stages = std::clamp<int32_t>(
        ceil_div_32(stages * kStageSteps, args.window_steps) + 1, kLeastStages, kMaxStages);
    if (shared_bytes(args, tile) <= room) return true;
  }
  args.window_stages = kLeastStages;
  return shared_bytes(args, tile) <= room;
}

// Shared memory of a block. What is left is for barriers.
int64_t room_of(const Tile& tile, int64_t blocks, const Chip& chip) {
  return blocks_of(tile) == 1 || blocks <= chip.multiprocessors ? kMostShared : 110 * 1024;
}

// Lets threads have pairs of neighbouring pixels where these are 8 bytes of what is written, and
// where loads of every other pixel do not have more elements in the same bank.
void set_pixels(const Conv2dProblem& p, Arguments& args) {
  constexpr int64_t kMostStride = 4;
  const auto is_even = [](int64_t extent, int64_t stride) {
    return extent == 1 || stride % 2 == 0;
  };
  args.writes_pairs = p.stride_w <= kMostStride && args.log_columns >= 3 && p.q() % 2 == 0 &&
                      is_even(args.rows, args.row_step) &&
                      is_even(args.channels, args.channel_step) &&
                      is_even(args.images, args.image_step);
  args.lane_pixels = args.writes_pairs ? 2 : 1;
  args.half_pixels = args.writes_pairs ? 1 : 8;
}

std::optional<Plan> make_plan(const Conv2dProblem& p, const Tile& tile, const Shape& shape,
                              const Box& box, const Chip& chip) {
  Plan plan{.tile = tile, .box = box};
  Arguments& args = plan.args;
  const int64_t q = p.q(), height = p.p(), taps = p.r * p.s;
  args.channel_tiles = FastDiv(ceil_div(p.k, tile.channels));
  args.column_tiles = FastDiv(ceil_div(q, int64_t{1} << shape.log_columns));
  args.row_tiles = FastDiv(ceil_div(height, int64_t{1} << shape.log_rows));
  args.tiles = narrow(pixel_tiles(p, shape) * args.channel_tiles.divisor);
  args.log_columns = shape.log_columns;
  args.log_rows = shape.log_rows;
  args.images = narrow(p.n);
  args.rows = narrow(height);
  args.columns = narrow(q);
  args.channels = narrow(p.k);
  args.step_h = narrow(p.stride_h);
  args.step_w = narrow(p.stride_w);
  const int64_t lead = round_up(p.pad_left, kUnit) - p.pad_left;
  args.first_h = narrow(-p.pad_top);
  args.first_w = narrow(-p.pad_left - lead);
  args.lead_bytes = narrow(lead * 4);
  args.tap_column_bytes = narrow(p.dilation_w * 4);
  args.column_bytes = narrow(p.stride_w * 4);
  args.row_bytes = narrow(p.stride_h * box.columns * 4);
  args.tap_row_bytes = narrow(p.dilation_h * box.columns * 4);
  args.channel_bytes = narrow(int64_t{box.rows} * box.columns * 4);
  args.image_bytes = args.channel_bytes * box.channels;
  args.taps = FastDiv(taps);
  args.taps_w = FastDiv(p.s);
  args.window_channels = box.channels;
  args.window_steps = narrow(box.channels * taps / kStepDepth);
  args.window_bytes = narrow(round_up(box.bytes(), 128));
  args.stages = narrow(ceil_div(p.c * taps, kStageDepth));
  args.split_stages = args.stages;
  args.splits = 1;
  args.split_tiles = FastDiv(args.tiles);
  args.image_step = p.output.n;
  args.channel_step = p.output.c;
  args.row_step = p.output.h;
  set_pixels(p, args);
  if (args.window_steps > kMostWindowSteps ||
      !set_stages(args, tile, room_of(tile, args.tiles, chip))) {
    return std::nullopt;
  }
  return plan;
}

// The same with so many blocks for a tile.
std::optional<Plan> split(const Conv2dProblem& p, Plan plan, int64_t splits, const Chip& chip) {
  constexpr int64_t kLeastSplitStages = 4;
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  Arguments& args = plan.args;
  const int64_t of_split = std::max(kLeastSplitStages, ceil_div(args.stages, splits));
  const int64_t count = ceil_div(args.stages, of_split);
  const int64_t plane = p.p() * p.q();
  if (count < 2 || count * args.tiles > INT32_MAX) return std::nullopt;
  args.splits = narrow(count);
  args.split_stages = narrow(of_split);
  args.split_step = p.n * p.k * plane;
  args.image_step = p.k * plane;
  args.channel_step = plane;
  args.row_step = p.q();
  set_pixels(p, args);
  plan.workspace_bytes = count * args.split_step * 4;
  if (plan.workspace_bytes > kMostBytes) return std::nullopt;
  if (!set_stages(args, plan.tile, room_of(plan.tile, args.tiles * count, chip))) {
    return std::nullopt;
  }
  return plan;
}

// Whether four pixels of the output are 16 bytes, as the kernel that adds splits writes them.
bool adds_splits(const Conv2dProblem& p) {
  const Strides& output = p.output;
  return p.p() * p.q() % kUnit == 0 && (p.p() == 1 || output.h == p.q()) &&
         is_multiple(p.k, output.c) && is_multiple(p.n, output.n) &&
         p.n * p.k * p.p() * p.q() / kUnit <= INT32_MAX;
}

// Of the tensor cores' 1024 in a cycle. Short instructions wait for their operands from registers.
double macs_per_cycle(const Tile& tile) {
  if (tile.channels == 256) return 960;
  if (tile.channels == 128) return tile.pixels == 256 ? 820 : 640;
  return tile.pixels == 256 ? 510 : 570;
}

// The constants were fitted to times on an H200: benchmarks/NOTES.md, "unpacked".
double estimate_ms(const Conv2dProblem& p, const Plan& plan, const Chip& chip) {
  constexpr double kStageCycles = 40;
  constexpr double kTileCycles = 1500;     // of a tile, besides its stages and results
  constexpr double kResultCycles = 0.14;   // to write a result
  constexpr double kBytesPerCycle = 47.5;  // from the L2 cache to each multiprocessor
  constexpr double kOverlap = 0.69;        // of a tile's end that a second block does not hide
  constexpr double kLaunchMs = 0.0028, kSplitsMs = 0.002, kRate = 1.1, kMemoryRate = 0.93;
  constexpr double kHides = 3.7;
  const Arguments& args = plan.args;
  const Tile& tile = plan.tile;
  const double results = tile.pixels * tile.channels;
  const double bytes =
      filter_stage_bytes(tile) + plan.box.bytes() * double(kStageSteps) / args.window_steps;
  const double stage =
      std::max(results * kStageDepth / macs_per_cycle(tile) + kStageCycles, bytes / kBytesPerCycle);
  const double end = kTileCycles + kResultCycles * results;
  const double items = double(args.tiles) * args.splits, multiprocessors = chip.multiprocessors;
  const auto round_cycles = [&](double tiles) {
    const double sharing = std::ceil(tiles / std::min(tiles, multiprocessors));
    return args.split_stages * stage * sharing + end * sharing * (sharing > 1 ? kOverlap : 1);
  };
  const double at_once = blocks_of(tile) * multiprocessors, rounds = std::floor(items / at_once);
  const double left = items - rounds * at_once;
  const double cycles =
      (rounds > 0 ? rounds * round_cycles(at_once) : 0) + (left > 0 ? round_cycles(left) : 0);
  const double tiles_ms = cycles / chip.clock_hz * 1e3;
  // Windows have the pixels between strides too.
  const double memory_ms = p.bytes() / (chip.memory_rate * kMemoryRate) * 1e3;
  const double sums_ms = args.splits == 1
                             ? 0
                             : kSplitsMs + 2.0 * static_cast<double>(plan.workspace_bytes) /
                                               (chip.memory_rate * kRate) * 1e3;
  return kLaunchMs + sums_ms +
         std::pow(std::pow(tiles_ms, kHides) + std::pow(memory_ms, kHides), 1 / kHides);
}

int log2_up(int64_t n) { return std::bit_width(static_cast<uint64_t>(n - 1)); }

// Whether two windows of a box and two stages of the filter fit.
bool fits(const Conv2dProblem& p, const Tile& tile, const Box& box, int64_t room) {
  const int64_t steps = box.channels * p.r * p.s / kStepDepth;
  return steps <= kMostWindowSteps &&
         kAlignment + kLeastStages * (filter_stage_bytes(tile) + round_up(box.bytes(), 128)) +
                 steps * kStepDepth * 4 <=
             room;
}

// The plan of the shape that has the fewest tiles, and of these the smallest windows, in rows of at
// least 128 bytes if the output has so many columns.
std::optional<Plan> make_best_plan(const Conv2dProblem& p, const Tile& tile, const Chip& chip) {
  constexpr int kLeastLogColumns = 5;
  const int log_pixels = log2_up(tile.pixels), log_q = std::max(2, log2_up(p.q()));
  std::optional<Shape> best;
  std::optional<Box> best_box;
  int64_t best_tiles = 0;
  for (int log_columns = std::min(log_q, log_pixels);
       log_columns >= std::min(log_q, best ? kLeastLogColumns : 2); --log_columns) {
    const int left = log_pixels - log_columns;
    for (int log_rows = std::min(log2_up(p.p()), left); log_rows >= 0; --log_rows) {
      const Shape shape{log_columns, log_rows, left - log_rows};
      const int64_t tiles = pixel_tiles(p, shape);
      if (best && tiles > best_tiles) continue;
      const std::optional<Box> box = box_of(p, shape);
      if (!box || (best && tiles == best_tiles && box->bytes() >= best_box->bytes())) continue;
      if (!fits(p, tile, *box, room_of(tile, tiles, chip))) continue;
      best = shape;
      best_box = box;
      best_tiles = tiles;
    }
  }
  if (!best || best_tiles * ceil_div(p.k, tile.channels) > INT32_MAX) return std::nullopt;
  return make_plan(p, tile, *best, *best_box, chip);
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const Arguments& args = plan.args;
  os << Direction::kFprop << " unpacked tile=" << plan.tile.pixels << 'x' << plan.tile.channels
     << " pixels=" << plan.box.images << 'x' << (1 << args.log_rows) << 'x'
     << (1 << args.log_columns) << " stages=" << args.window_stages << '+' << args.filter_stages;
  if (args.splits > 1) os << " splits=" << args.splits;
  return os << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& p) {
  if (p.groups != 1) return "it has groups";
  if (p.stride_h == 1 && p.stride_w == 1) return "it has no stride";
  if (!is_multiple(p.h, p.input.h) || !is_multiple(p.c, p.input.c) ||
      !is_multiple(p.n, p.input.n)) {
    return "the input's rows are no whole 16 bytes apart";
  }
  if ((p.s > 1 && p.filter.w != 1) || (p.r > 1 && p.filter.h != p.s) ||
      (p.c > 1 && p.filter.c != p.r * p.s) || !is_multiple(p.k, p.filter.n)) {
    return "filters are not dense, or no whole 16 bytes";
  }
  constexpr int64_t kMostDepth = int64_t{1} << 30;
  if (p.c * p.r * p.s > kMostDepth) return "a filter has more than 2^30 elements";
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip) {
  constexpr int64_t kMostWaves = 2;
  std::vector<Plan> plans;
  const bool may_split = adds_splits(problem);
  for (const Tile& tile : kTiles) {
    if (tile.channels >= 2 * std::max<int64_t>(problem.k, 64)) continue;
    std::optional<Plan> plan = make_best_plan(problem, tile, chip);
    if (!plan) continue;
    const int64_t tiles = plan->args.tiles;
    for (int64_t wave = 1; may_split && wave <= kMostWaves; ++wave) {
      const int64_t splits = chip.multiprocessors * wave / tiles;
      if (splits < 2) continue;
      if (auto shared = split(problem, *plan, splits, chip)) plans.push_back(*std::move(shared));
    }
    plans.push_back(*std::move(plan));
  }
  for (Plan& plan : plans) plan.estimated_ms = estimate_ms(problem, plan, chip);
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::unpacked
