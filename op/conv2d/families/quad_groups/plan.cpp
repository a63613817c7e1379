#include "conv2d/families/quad_groups/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/geometry/forward_pass.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::quad_groups {

namespace {

bool has_rows(const ForwardPass& pass) { return pass.source.w == 1 && pass.result.w == 1; }
bool has_channels(const ForwardPass& pass) { return pass.source.c == 1 && pass.result.c == 1; }

// Whether neighbours in all directions but the innermost are so many elements apart, or multiples.
bool are_apart(const Strides& strides, int64_t unit) {
  const int64_t across = strides.c == 1 ? strides.w : strides.c;
  return strides.n % unit == 0 && strides.h % unit == 0 && across % unit == 0;
}

// Whether all pixels of the source begin at 16 bytes, and have whole such of channels.
bool has_units(const Conv2dProblem& problem, const ForwardPass& pass) {
  constexpr int64_t kUnit = 8;  // elements
  return problem.c % kUnit == 0 && are_apart(pass.source, kUnit);
}

double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  constexpr double kLaunchMs = 0.003;
  const bool multiplies_matrices = plan.way == Way::kProducts || plan.way == Way::kPeriods;
  // As a part of a copy's.
  const double memory_rate = multiplies_matrices ? 0.75 : 0.85;
  const double memory = problem.bytes() / (chip.memory_rate * memory_rate);
  if (multiplies_matrices) return kLaunchMs + memory * 1e3;
  // As a part of the ordinary instructions' rate, because values are brought and converted too.
  constexpr double kMathRate = 0.36;
  const double taps = plan.side * plan.side;
  const double products = static_cast<double>(problem.n * plan.args.groups) * kGroupChannels *
                          kGroupChannels * taps * static_cast<double>(plan.args.p * plan.args.q);
  const double math = products / (chip.cycle_rate() * chip.multiply_adds.float32 * kMathRate);
  return kLaunchMs + std::max(math, memory) * 1e3;
}

// Sets the tiles of a way that has args.tile_columns columns.
void set_channel_tiles(Plan& plan, int64_t rows, int64_t groups) {
  Arguments& args = plan.args;
  args.column_tiles = FastDiv(ceil_div(args.q, args.tile_columns));
  args.row_tiles = FastDiv(ceil_div(args.p, rows));
  args.group_tiles = FastDiv(ceil_div(args.groups, groups));
}

std::string declines_periods(const Conv2dProblem& problem) {
  if (size_of(problem.type) != 2 || problem.output.c != 1 || problem.input.c != 1) {
    return "it is an input gradient with a stride, without channels innermost of 16 bits";
  }
  constexpr int64_t kUnit = 8;  // elements
  if (problem.c % kUnit != 0 || !are_apart(problem.output, kUnit) ||
      !are_apart(problem.input, kUnit)) {
    return "it is an input gradient with a stride, and pixels are not of whole 16 bytes";
  }
  return "";
}

// Of an input gradient with a stride.
Plan make_period_plan(const Conv2dProblem& problem, const Chip& chip) {
  Plan plan{.direction = Direction::kDgrad,
            .way = Way::kPeriods,
            .side = static_cast<int32_t>(problem.r),
            .stride = static_cast<int32_t>(problem.stride_h)};
  Arguments& args = plan.args;
  args.groups = static_cast<int32_t>(problem.groups);
  args.h = static_cast<int32_t>(problem.p());
  args.w = static_cast<int32_t>(problem.q());
  args.p = static_cast<int32_t>(problem.h);
  args.q = static_cast<int32_t>(problem.w);
  args.pad_top = static_cast<int32_t>(problem.pad_top);
  args.pad_left = static_cast<int32_t>(problem.pad_left);
  args.source = problem.output;
  args.result = problem.input;
  args.filter_group = kGroupChannels * problem.filter.n;
  args.filter_result = problem.filter.c;
  args.filter_source = problem.filter.n;
  args.filter_row = problem.filter.h;
  args.filter_column = problem.filter.w;
  // The first period begins at an even distance from the filter's first tap.
  const auto periods = [](int64_t pixels, int64_t pad) { return ceil_div(pixels + pad % 2, 2); };
  args.row_tiles = FastDiv(ceil_div(periods(problem.h, problem.pad_top), kPeriodRows));
  args.column_tiles = FastDiv(ceil_div(periods(problem.w, problem.pad_left), kPeriodColumns));
  args.group_tiles = FastDiv(ceil_div(problem.groups, kProductGroups));
  plan.blocks = int64_t{args.row_tiles.divisor} * args.column_tiles.divisor *
                args.group_tiles.divisor * problem.n;
  plan.estimated_ms = estimate_ms(problem, plan, chip);
  return plan;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction
            << (plan.way == Way::kRows       ? " rows"
                : plan.way == Way::kChannels ? " channels"
                : plan.way == Way::kProducts ? " products"
                                             : " periods")
            << " filter=" << plan.side << 'x' << plan.side << " stride=" << plan.stride
            << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction) {
  if (direction == Direction::kWgrad) return "it computes no weight gradients";
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (problem.type == DataType::kFloat64) return "the element type is float64";
  if (problem.groups == 1 || problem.group_c() != kGroupChannels ||
      problem.group_k() != kGroupChannels) {
    return "its groups are not of four input and four output channels";
  }
  const int64_t stride = problem.stride_h;
  const bool is_square = problem.r == problem.s && problem.stride_h == problem.stride_w &&
                         problem.dilation_h == 1 && problem.dilation_w == 1;
  const bool is_known =
      (problem.r == 3 && (stride == 1 || stride == 2)) || (problem.r == 4 && stride == 2);
  if (!is_square || !is_known) {
    return "its filter is neither 3x3 with a stride of 1 or 2 nor 4x4 with a stride of 2";
  }
  if (direction == Direction::kDgrad && stride != 1) return declines_periods(problem);
  const ForwardPass pass = forward_pass_of(problem, direction);
  if (pass.pad_left != kPadLeft || pass.pad_top < 0) return "the padding on the left is not 1";
  if (has_channels(pass)) {
    if (size_of(problem.type) != 2) return "channels are innermost, but not of 16 bits";
    if (!are_apart(pass.source, kGroupChannels) || !are_apart(pass.result, kGroupChannels) ||
        problem.filter.c != 1 || !are_apart(problem.filter, kGroupChannels)) {
      return "groups do not begin at multiples of 8 bytes";
    }
    return "";
  }
  if (!has_rows(pass)) return "neither rows nor channels are innermost in both tensors";
  if (stride == 2 && (pass.w % 2 != 0 || !are_apart(pass.source, 2))) {
    return "rows are not of whole pairs of pixels";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool all) {
  constexpr int kMatrixInstruction = 80;  // the first compute capability that has it
  const bool has_instruction = chip.compute_capability >= kMatrixInstruction;
  if (direction == Direction::kDgrad && problem.stride_h != 1) {
    if (!has_instruction) return {};
    return {make_period_plan(problem, chip)};
  }
  const ForwardPass pass = forward_pass_of(problem, direction);
  const Strides& filter = problem.filter;
  const bool fprop = direction == Direction::kFprop;
  Plan plan{.direction = direction,
            .side = static_cast<int32_t>(problem.r),
            .stride = static_cast<int32_t>(problem.stride_h)};
  Arguments& args = plan.args;
  args.groups = static_cast<int32_t>(problem.groups);
  args.h = static_cast<int32_t>(pass.h);
  args.w = static_cast<int32_t>(pass.w);
  args.p = static_cast<int32_t>(pass.p);
  args.q = static_cast<int32_t>(pass.q);
  args.pad_top = static_cast<int32_t>(pass.pad_top);
  args.source = pass.source;
  args.result = pass.result;
  args.filter_group = kGroupChannels * filter.n;
  args.filter_result = fprop ? filter.n : filter.c;
  args.filter_source = fprop ? filter.c : filter.n;
  args.filter_row = pass.filter_row;
  args.filter_column = pass.filter_column;
  args.filter_first = pass.filter_first;
  std::vector<Plan> plans;
  const auto add = [&](Way way, int64_t tiles) {
    plan.way = way;
    plan.blocks = tiles * args.group_tiles.divisor * problem.n;
    plan.estimated_ms = estimate_ms(problem, plan, chip);
    plans.push_back(plan);
  };
  if (!has_channels(pass)) {
    const int64_t column_tiles = ceil_div(pass.q, kMostWarpColumns);
    args.tile_columns = static_cast<int32_t>(ceil_div(pass.q, column_tiles));
    args.column_tiles = FastDiv(column_tiles);
    args.row_tiles = FastDiv(ceil_div(ceil_div(pass.p, kWarpRows) * column_tiles, kWarps));
    args.group_tiles = FastDiv(problem.groups);
    add(Way::kRows, args.row_tiles.divisor);
    return plans;
  }
  if (has_instruction && has_units(problem, pass)) {
    args.tile_columns = product_columns(plan.stride);
    set_channel_tiles(plan, kProductRows, kProductGroups);
    add(Way::kProducts, int64_t{args.row_tiles.divisor} * args.column_tiles.divisor);
    if (!all) return plans;
  }
  args.tile_columns = kLaneColumns;
  set_channel_tiles(plan, kWarps, 32);
  add(Way::kChannels, int64_t{args.row_tiles.divisor} * args.column_tiles.divisor);
  return plans;
}

}  // namespace haloconv::quad_groups
