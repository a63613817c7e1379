// Plans from rows as they lie.
#include <algorithm>
#include <optional>

#include "conv2d/families/first_layers/plan.h"
#include "conv2d/families/first_layers/sweep.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::first_layers {

namespace {

constexpr double kLaunchMs = 0.004;

double memory_ms(const Conv2dProblem& problem, const Chip& chip, double rate_of_copy) {
  return problem.bytes() / (chip.memory_rate * rate_of_copy) * 1e3;
}

double cycles_ms(const Chip& chip, double cycles) {
  return cycles / chip.multiprocessors / chip.clock_hz * 1e3;
}

// Fitted to times on an H200, as the callers' cycles are.
double fprop_ms(const Conv2dProblem& problem, const Chip& chip, double cycles) {
  return kLaunchMs + std::max(memory_ms(problem, chip, 0.8), cycles_ms(chip, cycles));
}

// The slowest block's time. `steps` are those of all tiles, each of 16 pixels, 64 rows of the
// product and 64 channels. A part of the lesser of bytes and steps is not hidden. Fitted to times
// on an H100.
double wgrad_ms(const Conv2dProblem& problem, const Chip& chip, const Sweep& sweep, int64_t groups,
                double steps) {
  constexpr double kStepCycles[kMostPlainGroups] = {115, 125, 90};  // by math warpgroups
  constexpr double kAddMs = 0.004, kMemoryRate = 0.95, kNotHidden = 0.05;
  const double unevenness =
      static_cast<double>(ceil_div(sweep.tiles, sweep.runs)) * sweep.runs / sweep.tiles;
  const double bytes_ms = memory_ms(problem, chip, kMemoryRate);
  const double steps_ms = cycles_ms(chip, kStepCycles[groups - 1] * steps * unevenness);
  return kLaunchMs + kAddMs + std::max(bytes_ms, steps_ms) +
         kNotHidden * std::min(bytes_ms, steps_ms);
}

// Rows as they lie; none if taps, pixels and rows do not lie as the copy engine brings them.
std::optional<PlainRows> plain_rows_of(const Conv2dProblem& problem, const Sweep& sweep) {
  const int64_t row = problem.w * problem.c;
  const bool follow_each_other =
      (problem.c == 1 || problem.input.c == 1) && (problem.w == 1 || problem.input.w == problem.c);
  if (size_of(problem.type) != 2 || problem.dilation_w != 1 || !follow_each_other ||
      row % kCopiedElements != 0 || !is_multiple_of_8(problem.n, problem.input.n) ||
      !is_multiple_of_8(problem.h, problem.input.h)) {
    return std::nullopt;
  }
  PlainRows rows{};
  rows.channels = narrow(problem.c);
  rows.pixel_step = narrow(problem.stride_w) * rows.channels;
  rows.taps = narrow(problem.s) * rows.channels;
  // A strip's first run begins at any of 8 elements, which all strips share.
  rows.shift = static_cast<int32_t>(round_up(problem.pad_left * problem.c, kPlainUnitElements) -
                                    problem.pad_left * problem.c);
  const int32_t most_before = rows.has_halves() ? 1 : rows.before(0);
  rows.steps = static_cast<int32_t>(ceil_div(rows.taps + most_before, kDeep));
  const int64_t copied =
      ceil_div(rows.shift + int64_t{sweep.columns - 1} * rows.pixel_step + rows.steps * kDeep,
               kCopiedElements);
  rows.boxes = static_cast<int32_t>(ceil_div(copied, kMostCopied));
  rows.box = static_cast<int32_t>(round_up(ceil_div(copied, rows.boxes), 16));  // of 128 bytes
  return rows;
}

void add_plain_rows(const Conv2dProblem& problem, const Chip& chip, std::vector<Plan>& plans) {
  Plan plan;
  FpropArguments& args = plan.fprop;
  args = fprop_arguments(problem, false);
  Sweep& sweep = args.sweep;
  plan.plain = plain_rows_of(problem, sweep);
  if (!plan.plain || sweep.ring == 0) return;
  sweep.row_bytes = plan.plain->row_bytes();
  for (const int32_t channels : kFpropChannels) {
    const int64_t tiles = ceil_div(problem.k, channels);
    // Each tile of channels brings all rows again.
    if (channels != 128 && tiles > 1) continue;
    if (channels > 32 && channels - 32 >= problem.k) continue;
    plan.channels = channels;
    plan.shared_bytes =
        int64_t{plan.plain->images()} * plan.plain->image_units(sweep.r, channels) * kUnitBytes +
        int64_t{sweep.ring} * sweep.row_bytes + kAlignment;
    if (plan.shared_bytes > kSharedBytes) continue;
    args.channel_tiles = FastDiv(tiles);
    const auto runs_of = [&](bool fused) {
      const int64_t at_once =
          std::clamp<int64_t>(kSharedBytes / plan.shared_bytes, 1, plain_blocks(channels, fused));
      return narrow(std::clamp<int64_t>(at_once * chip.multiprocessors / tiles, 1, sweep.tiles));
    };
    sweep.runs = runs_of(false);
    plan.fused_runs = runs_of(true);
    constexpr double kStepCycles = 70, kTileCycles = 130, kResultCycles = 6;
    const double tile_cycles = kStepCycles * static_cast<double>(problem.r * plan.plain->steps) +
                               kTileCycles + kResultCycles * channels;
    plan.estimated_ms = fprop_ms(
        problem, chip, static_cast<double>(sweep.tiles * tiles) * kMathGroups * tile_cycles);
    plans.push_back(plan);
  }
}

void add_plain_wgrad(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                     std::vector<Plan>& plans) {
  Plan plan;
  plan.direction = Direction::kWgrad;
  WgradArguments& args = plan.wgrad;
  args = wgrad_arguments(problem, make_sweep(problem, false, with_bias, false), with_bias);
  Sweep& sweep = args.sweep;
  plan.plain = plain_rows_of(problem, sweep);
  if (!plan.plain || sweep.ring == 0) return;
  sweep.row_bytes = plan.plain->row_bytes();
  const int64_t rows = problem.r * plan.plain->taps + (with_bias ? 1 : 0);
  const int64_t groups = ceil_div(rows, kPlainRows);
  if (groups > kMostPlainGroups) return;
  plan.plain_groups = narrow(groups);
  for (int32_t chunks = 1; chunks <= (groups == 1 ? kMostPlainChunks : 1); ++chunks) {
    if (chunks > 1 && problem.k <= (chunks - 1) * kPlainChunk) continue;
    plan.channels = chunks * kPlainChunk;
    args.channel_tiles = narrow(ceil_div(problem.k, plan.channels));
    args.grad_output_stages = 3;
    const int64_t stage_bytes = int64_t{plan.channels} * 128 * 2;
    plan.shared_bytes =
        kAlignment + args.grad_output_stages * stage_bytes + int64_t{sweep.ring} * sweep.row_bytes;
    if (plan.shared_bytes > kSharedBytes) continue;
    const int64_t at_once =
        std::clamp<int64_t>(kSharedBytes / plan.shared_bytes, 1, groups == 3 ? 2 : 3);
    sweep.runs = narrow(
        std::clamp<int64_t>(at_once * chip.multiprocessors / args.channel_tiles, 1, sweep.tiles));
    const int64_t sums =
        int64_t{sweep.runs} * args.channel_tiles * plan.channels / 2 * groups * 128;
    plan.workspace_bytes = sums * 4;
    const int64_t steps = problem.n * problem.p() * ceil_div(problem.q(), kDeep);
    plan.estimated_ms = wgrad_ms(problem, chip, sweep, groups,
                                 static_cast<double>(steps * args.channel_tiles * chunks * groups));
    plans.push_back(plan);
  }
}

}  // namespace

std::vector<Plan> make_plain_plans(const Conv2dProblem& problem, Direction direction,
                                   const Chip& chip, bool with_bias) {
  std::vector<Plan> plans;
  if (direction == Direction::kFprop) {
    add_plain_rows(problem, chip, plans);
  } else {
    add_plain_wgrad(problem, chip, with_bias, plans);
  }
  return plans;
}

}  // namespace haloconv::sm90::first_layers
