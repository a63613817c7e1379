// Plans of wgrad in TF32 by the warp's matrix instruction.
#include <algorithm>

#include "conv2d/families/first_layers/plan.h"
#include "conv2d/families/first_layers/sweep.h"
#include "conv2d/geometry/hopper_channels.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::first_layers {

namespace {

constexpr int64_t kMostPitch = 512;  // 256 of the copy engine's units, of two elements
constexpr int64_t kMostInputRows = 256;
constexpr int64_t kBanks = 32;
constexpr int32_t kTilePixels = 64;  // of a tile at most, where each warp has tiles of its own

// The slowest block's time. A part of the lesser of bytes and products is not hidden. Fitted to
// nine plans of five layers on an H200, of which eight are within 10 %, and one 22 % below.
double warp_products_ms(const Conv2dProblem& problem, const Chip& chip,
                        const WarpProductsArguments& args) {
  constexpr double kLaunchMs = 0.007, kMemoryRate = 0.98, kNotHidden = 0.05;
  // For four warps, one on each scheduler of a multiprocessor: to begin a row, and a step.
  constexpr double kRowCycles[kMostWarpChunks] = {500, 600};
  constexpr double kStepCycles[kMostWarpChunks] = {80, 165};
  const Sweep& sweep = args.wgrad.sweep;
  const int64_t steps = ceil_div(std::min<int64_t>(sweep.columns, sweep.q), kWarpDeep);
  const int64_t rows = std::min(sweep.tile_rows, sweep.p) * ceil_div(sweep.tiles, sweep.runs);
  const double cycles =
      static_cast<double>(rows * args.column_warps) / 4 *
      (kRowCycles[args.chunks - 1] + kStepCycles[args.chunks - 1] * static_cast<double>(steps));
  const double bytes_ms = problem.bytes() / (chip.memory_rate * kMemoryRate) * 1e3;
  const double cycles_ms = cycles / chip.clock_hz * 1e3;
  return kLaunchMs + std::max(bytes_ms, cycles_ms) + kNotHidden * std::min(bytes_ms, cycles_ms);
}

// Tiles of pixels of a row or, where rows are short, of several; of whole instructions.
void cut_into_tiles(const Conv2dProblem& problem, int32_t most_pixels, Sweep& sweep) {
  const int64_t p = problem.p(), q = problem.q(), pixel_step = problem.stride_w * problem.c;
  // As many columns as the copy engine brings the input's elements of in a piece.
  const int64_t window = (problem.s - 1) * problem.dilation_w * problem.c + problem.c;
  const int64_t by_pitch = (kMostPitch - kBanks - window) / pixel_step + 1;
  const int64_t most = std::clamp<int64_t>(by_pitch / 8 * 8, 8, kTilePixels);
  sweep.columns = narrow(round_up(ceil_div(q, ceil_div(q, most)), 8));
  sweep.tile_rows = narrow(std::clamp<int64_t>(most_pixels / sweep.columns, 1, p));
  const int64_t strips = ceil_div(q, sweep.columns), bands = ceil_div(p, sweep.tile_rows);
  sweep.strips = FastDiv(strips), sweep.bands = FastDiv(bands);
  sweep.tiles = narrow(problem.n * strips * bands);
}

}  // namespace

std::string warp_products_decline(const Conv2dProblem& problem) {
  const bool follow_each_other =
      (problem.c == 1 || problem.input.c == 1) && (problem.w == 1 || problem.input.w == problem.c);
  const auto is_for_copies = [](int64_t extent, int64_t stride) {
    return extent == 1 || (stride > 0 && stride % 4 == 0);
  };
  if (!follow_each_other) return "the input's pixels do not follow each other";
  if (problem.w * problem.c % 2 != 0 || !is_for_copies(problem.n, problem.input.n) ||
      !is_for_copies(problem.h, problem.input.h)) {
    return "the input's rows do not begin at multiples of 16 bytes";
  }
  return "";
}

std::vector<Plan> make_warp_products_plans(const Conv2dProblem& problem, const Chip& chip,
                                           bool with_bias) {
  const int64_t columns = problem.r * problem.s * problem.c + (with_bias ? 1 : 0);
  Plan plan;
  plan.direction = Direction::kWgrad;
  plan.wgrad = wgrad_arguments(problem, make_sweep(problem, false, false, false), with_bias);
  plan.wgrad.reaches_beyond = false;  // what pixels beyond grad_output meet counts as zeros
  WarpProductsArguments args{};
  args.wgrad = plan.wgrad;
  args.column_warps = 1;
  while (args.column_warps * kWarpColumns < columns) args.column_warps *= 2;
  if (args.column_warps > kProductWarps) return {};
  args.pixel_step = narrow(problem.stride_w * problem.c);
  args.shift = narrow(round_up(problem.pad_left * problem.c, 4) - problem.pad_left * problem.c);
  args.pairs_rows = args.pixel_step % 4 == 2 && problem.dilation_h % 2 == 1;
  std::vector<Plan> plans;
  Sweep& sweep = args.wgrad.sweep;
  for (int32_t chunks = 1; chunks <= kMostWarpChunks; ++chunks) {
    if (chunks > 1 && problem.k <= (chunks - 1) * kWarpChannels) continue;
    args.chunks = chunks;
    args.wgrad.channel_tiles = narrow(ceil_div(problem.k, chunks * kWarpChannels));
    cut_into_tiles(problem, args.column_warps < 4 ? kTilePixels : 2 * kTilePixels, sweep);
    const int64_t elements = args.shift + int64_t{sweep.columns - 1} * args.pixel_step +
                             (problem.s - 1) * problem.dilation_w * problem.c + problem.c;
    args.pitch = narrow(args.pairs_rows ? round_up(elements + kBanks / 2, kBanks) - kBanks / 2
                                        : round_up(elements, 4));
    if (args.pitch > kMostPitch || sweep.rows_of_tile() > kMostInputRows) continue;
    args.stage_bytes =
        narrow(round_up(chunks * args.chunk_bytes() + args.input_bytes(), kAlignment));
    const int64_t stages = (kSharedBytes - kAlignment) / args.stage_bytes;
    // Each group of warps has a tile, and another one comes.
    if (stages <= args.groups()) continue;
    args.stages = narrow(std::min<int64_t>(stages, kMostWarpStages));
    const int64_t sums_bytes = int64_t{args.sums_of_thread()} * kProductWarps * 32 * 4;
    plan.shared_bytes =
        kAlignment + std::max<int64_t>(int64_t{args.stages} * args.stage_bytes, sums_bytes);
    sweep.runs = narrow(
        std::clamp<int64_t>(chip.multiprocessors / args.wgrad.channel_tiles, 1, sweep.tiles));
    plan.channels = chunks * kWarpChannels;
    plan.workspace_bytes = int64_t{sweep.runs} * args.wgrad.channel_tiles * args.sums_of_thread() *
                           args.sum_threads() * 4;
    plan.wgrad = args.wgrad;
    plan.warp_products = args;
    plan.estimated_ms = warp_products_ms(problem, chip, args);
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace haloconv::sm90::first_layers
