#include "conv2d/families/first_layers/plan.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>

#include "conv2d/families/first_layers/filter_image.h"
#include "conv2d/families/first_layers/sweep.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/hopper_channels.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::first_layers {

namespace {

constexpr int64_t kMostChannels = 8;
constexpr int32_t kLeastRowsAhead = 4;  // if more would not leave room for a second block
constexpr int64_t kHalfSharedBytes = 110 * 1024;
// The time of units of contiguous rows, with all else that a tile takes.
constexpr double kFpropUnitCycles = 3, kWgradUnitCycles = 5;
constexpr int32_t kFpropRowsChannels[] = {64, 128};

bool has_channels_innermost(const Conv2dProblem& problem) {
  return problem.output.c == 1 && is_multiple_of_8(problem.n, problem.output.n) &&
         is_multiple_of_8(problem.p(), problem.output.h) &&
         is_multiple_of_8(problem.q(), problem.output.w);
}

// Pixels of a row that are written at once.
int32_t pixel_unit_of(const Conv2dProblem& problem) {
  auto unit = static_cast<int32_t>(16 / size_of(problem.type));
  const auto is_multiple = [&](int64_t extent, int64_t stride) {
    return extent == 1 || stride % unit == 0;
  };
  while (problem.q() % unit != 0 || !is_multiple(problem.n, problem.output.n) ||
         !is_multiple(problem.k, problem.output.c) || !is_multiple(problem.p(), problem.output.h)) {
    unit /= 2;
  }
  return unit;
}

// The longer of the times of the bytes and of the work: instructions, each as long as reading its
// operands, and units, which are put together. From contiguous rows these take half as long as from
// single elements, but hide only half of the shorter time.
double estimate_ms(const Conv2dProblem& problem, const Sweep& sweep, int64_t channel_tiles,
                   const Chip& chip, double cycles, double line_unit_cycles) {
  constexpr double kUnitCycles = 8;
  const bool has_lines = sweep.lines.count > 0;
  cycles += static_cast<double>(sweep.tiles * channel_tiles) * sweep.rows_to_next() *
            sweep.units.units * (has_lines ? line_unit_cycles : kUnitCycles);
  constexpr double kMemoryRate = 0.85;  // of a copy's
  constexpr double kLaunchMs = 0.005;
  const double memory_ms = problem.bytes() / (chip.memory_rate * kMemoryRate) * 1e3;
  const double cycles_ms = cycles / chip.multiprocessors / chip.clock_hz * 1e3;
  return kLaunchMs + std::max(memory_ms, cycles_ms) +
         (has_lines ? std::min(memory_ms, cycles_ms) / 2 : 0);
}

void add_fprop(const Conv2dProblem& problem, const Chip& chip, bool is_aligned,
               std::vector<Plan>& plans) {
  Plan plan;
  FpropArguments& args = plan.fprop;
  args = fprop_arguments(problem, is_aligned);
  Sweep& sweep = args.sweep;
  if (sweep.units.planes == 0 || sweep.ring == 0) return;
  plan.rows_innermost = has_rows_innermost(problem);
  args.pixel_unit = plan.rows_innermost ? pixel_unit_of(problem) : 0;
  const std::span<const int32_t> sizes = plan.rows_innermost
                                             ? std::span<const int32_t>(kFpropRowsChannels)
                                             : std::span<const int32_t>(kFpropChannels);
  const int32_t most_ahead = sweep.ring;
  for (const int32_t channels : sizes) {
    const int64_t tiles = ceil_div(problem.k, channels);
    // Each tile of channels brings all rows again.
    if (channels != 128 && tiles > 1) continue;
    if (channels > sizes[0] && channels - sizes[0] >= problem.k) continue;
    plan.channels = channels;
    const int64_t others =
        filter_image_bytes(sweep.units, problem.r, channels) + kAlignment +
        kOtherWarps * sweep.lines.bytes(narrow(size_of(problem.type))) +
        (plan.rows_innermost ? staging_bytes(narrow(size_of(problem.type)), false) : 0);
    const auto with_ring = [&](int32_t rows) { return others + int64_t{rows} * sweep.row_bytes; };
    sweep.ring = most_ahead;
    const int32_t least = std::min(
        most_ahead, std::max(sweep.rows_of_tile(), sweep.rows_to_next()) + kLeastRowsAhead);
    const bool can_share = plan.rows_innermost || channels <= 64;
    if (can_share && with_ring(least) <= kHalfSharedBytes) {
      while (with_ring(sweep.ring) > kHalfSharedBytes) --sweep.ring;
    }
    plan.shared_bytes = with_ring(sweep.ring);
    if (plan.fused_shared_bytes() > kSharedBytes) continue;
    args.channel_tiles = FastDiv(tiles);
    const int32_t at_once = can_share && plan.shared_bytes <= kHalfSharedBytes ? 2 : 1;
    sweep.runs =
        std::clamp(at_once * chip.multiprocessors / static_cast<int32_t>(tiles), 1, sweep.tiles);
    const double instructions = static_cast<double>(sweep.tiles) * kMathGroups *
                                static_cast<double>(tiles * problem.r) * (sweep.units.groups / 2);
    plan.estimated_ms = estimate_ms(problem, sweep, tiles, chip, instructions * (64 + channels) / 4,
                                    kFpropUnitCycles);
    plans.push_back(plan);
  }
}

// The distance between groups, if it is the same for all.
std::optional<int32_t> group_distance(const UnitRow& units) {
  if (units.groups == 1) return 1;
  const int32_t distance = units.group[1].unit - units.group[0].unit;
  for (int32_t i = 2; i < units.groups; ++i) {
    if (units.group[i].unit - units.group[i - 1].unit != distance) return std::nullopt;
  }
  return distance;
}

void add_wgrad(const Conv2dProblem& problem, const Chip& chip, bool with_bias, bool is_aligned,
               std::vector<Plan>& plans) {
  Plan plan;
  plan.direction = Direction::kWgrad;
  WgradArguments& args = plan.wgrad;
  args = wgrad_arguments(problem, make_sweep(problem, false, with_bias, is_aligned), with_bias);
  plan.rows_innermost = has_rows_innermost(problem);
  Sweep& sweep = args.sweep;
  if (sweep.units.planes == 0 || sweep.ring == 0) return;
  const std::optional<int32_t> distance = group_distance(sweep.units);
  if (!distance) return;
  args.group_bytes = *distance * kUnitBytes;
  for (const bool splits_rows : {true, false}) {
    plan.channels = splits_rows ? 64 : 128;
    if (!splits_rows && problem.k <= 64) continue;
    args.splits_rows = splits_rows;
    const int32_t columns = sweep.units.groups * sweep.units.elements;
    const auto rows = static_cast<int32_t>(splits_rows ? ceil_div(problem.r, 2) : problem.r);
    const auto* const sums = std::find_if(
        std::begin(kSumShapes), std::end(kSumShapes),
        [&](const SumShape& shape) { return shape.columns >= columns && shape.rows >= rows; });
    if (sums == std::end(kSumShapes)) continue;
    plan.sums = *sums;
    args.channel_tiles = static_cast<int32_t>(ceil_div(problem.k, plan.channels));
    const int64_t stage_bytes = int64_t{plan.channels} * 128 * 2;
    // Columns beyond the last group read what is after the ring.
    const int64_t beyond = int64_t{plan.sums.columns / sweep.units.elements} * args.group_bytes;
    const int64_t rows_bytes = round_up(int64_t{sweep.ring} * sweep.row_bytes + beyond, 128);
    const int64_t lines_bytes = (kOtherWarps - 1) * int64_t{sweep.lines.bytes(2)};
    const int64_t stages = (kSharedBytes - kAlignment - rows_bytes - lines_bytes) / stage_bytes;
    if (stages < 2) continue;
    args.grad_output_stages = static_cast<int32_t>(std::min<int64_t>(stages, kMaxStages));
    args.rows_bytes = narrow(rows_bytes);
    plan.shared_bytes =
        kAlignment + args.grad_output_stages * stage_bytes + rows_bytes + lines_bytes;
    sweep.runs = std::clamp(chip.multiprocessors / args.channel_tiles, 1, sweep.tiles);
    plan.workspace_bytes = int64_t{sweep.runs} * args.channel_tiles * plan.sums.columns / 2 *
                           plan.sums.rows * kMathGroups * 128 * 4;
    const double instructions = static_cast<double>(sweep.tiles) * args.channel_tiles * 8 *
                                static_cast<double>(problem.r) * (splits_rows ? 1 : 2);
    plan.estimated_ms = estimate_ms(problem, sweep, args.channel_tiles, chip,
                                    instructions * (64 + plan.sums.columns) / 4, kWgradUnitCycles) +
                        0.003;
    plans.push_back(plan);
  }
}

// Why this direction declines, beyond what all directions decline.
std::string dgrad_declines(const Conv2dProblem& problem) {
  const bool follow_each_other =
      (problem.c == 1 || problem.input.c == 1) && (problem.w == 1 || problem.input.w == problem.c);
  if (!follow_each_other && problem.w != 1 && problem.input.w != 1) {
    return "the input's pixels do not follow each other";
  }
  const bool is_float32 = problem.type == DataType::kFloat32;
  const int64_t most = is_float32 ? 48 : 64;
  if (problem.stride_h * problem.stride_w * problem.c > most) {
    return "its strides and input channels are more than " + std::to_string(most) + " together";
  }
  if (is_float32 && has_rows_innermost(problem)) {
    return "it is an input gradient of float32 with rows innermost";
  }
  return "";
}

}  // namespace

bool has_rows_innermost(const Conv2dProblem& problem) {
  return problem.output.w == 1 && !has_channels_innermost(problem);
}

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  if (plan.direction == Direction::kDgrad) {
    return os << plan.direction << " sums=" << plan.dgrad_shape.rows << 'x'
              << plan.dgrad_shape.channels << " taps=" << plan.dgrad.taps_h << 'x'
              << plan.dgrad.taps_w << " windows=" << plan.dgrad.windows
              << (plan.dgrad.strip_columns > kBlockColumns ? " wide" : "")
              << (plan.dgrad.is_narrow(plan.dgrad.element_bytes) ? " narrow" : "")
              << (plan.dgrad.halves() ? " halves" : "") << (plan.dgrad.mends ? " mends" : "")
              << " rows=" << plan.dgrad.worker_rows << " blocks=" << plan.dgrad_blocks
              << (plan.rows_innermost ? " rows innermost" : "");
  }
  const Sweep& sweep = plan.sweep();
  if (plan.warp_products) {
    return os << plan.direction << " warps tile=" << sweep.tile_rows << 'x' << sweep.columns << 'x'
              << plan.channels << " column_warps=" << plan.warp_products->column_warps
              << " runs=" << sweep.runs << " stages=" << plan.warp_products->stages
              << " workspace=" << plan.workspace_bytes;
  }
  os << plan.direction << (plan.plain ? " plain" : "") << " tile=" << sweep.tile_rows << 'x'
     << sweep.columns << 'x' << plan.channels;
  if (plan.plain) {
    os << " steps=" << plan.plain->steps << " boxes=" << plan.plain->boxes << 'x'
       << plan.plain->box;
  } else {
    os << " units=" << sweep.units.units;
  }
  os << " ring=" << sweep.ring << " runs=" << sweep.runs;
  if (plan.plain_groups > 0) {
    os << " groups=" << plan.plain_groups << " stages=" << plan.wgrad.grad_output_stages;
  } else if (plan.direction == Direction::kWgrad) {
    os << " sums=" << plan.sums.columns << 'x' << plan.sums.rows
       << (plan.wgrad.splits_rows ? " split" : "") << " stages=" << plan.wgrad.grad_output_stages;
  }
  if (plan.rows_innermost) os << " rows innermost";
  return os << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32,
                     const Chip& chip) {
  if (std::string reason = hopper_channels_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.c > kMostChannels) return "it has more than 8 input channels";
  if (problem.k % 8 != 0) return "its output channels are no multiple of 8";
  if (has_rows_innermost(problem)) {
    if (direction != Direction::kFprop && (!is_multiple_of_8(problem.n, problem.output.n) ||
                                           !is_multiple_of_8(problem.k, problem.output.c) ||
                                           !is_multiple_of_8(problem.p(), problem.output.h))) {
      return "the strides of the output's gradient are no positive multiples of 8";
    }
  } else if (!has_channels_innermost(problem)) {
    return "the output's channels are not innermost, or its strides no positive multiples of 8";
  }
  if (direction == Direction::kDgrad) return dgrad_declines(problem);
  if (direction == Direction::kWgrad && problem.type == DataType::kFloat32) {
    if (has_rows_innermost(problem))
      return "it is a weight gradient of float32 with rows innermost";
    if (std::string reason = warp_products_decline(problem); !reason.empty()) return reason;
  }
  // Offsets within a row are 32 bits long.
  constexpr int64_t kMostPixelStride = 1 << 12, kMostChannelStride = 1 << 27;
  if (problem.input.w > kMostPixelStride || problem.input.c > kMostChannelStride) {
    return "the input's pixels or channels lie too far apart";
  }
  if (problem.stride_h > 8 || problem.stride_w > 8) return "its stride is more than 8";
  constexpr int64_t kMostTiles = int64_t{1} << 30;
  if (problem.n * problem.p() * ceil_div(problem.q(), 64) > kMostTiles) {
    return "it has more than 2^30 tiles";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool with_bias, bool is_aligned) {
  std::vector<Plan> plans;
  if (direction == Direction::kFprop) {
    add_fprop(problem, chip, is_aligned, plans);
  } else if (direction == Direction::kDgrad) {
    plans = make_dgrad_plans(problem, chip);
  } else if (problem.type == DataType::kFloat32) {
    plans = make_warp_products_plans(problem, chip, with_bias);
  } else {
    add_wgrad(problem, chip, with_bias, is_aligned, plans);
  }
  if (direction != Direction::kDgrad && !has_rows_innermost(problem)) {
    for (Plan& plan : make_plain_plans(problem, direction, chip, with_bias)) {
      plans.push_back(std::move(plan));
    }
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::sm90::first_layers
