#include "conv2d/families/depthwise_direct/plan.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "conv2d/geometry/forward_pass.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::depthwise_direct {

namespace {

bool has_rows(const ForwardPass& pass) { return pass.source.w == 1 && pass.result.w == 1; }
bool has_channels(const ForwardPass& pass) { return pass.source.c == 1 && pass.result.c == 1; }

// Whether pixels lie whole units of 16 bytes apart, and so do all their neighbours.
bool is_in_units(const Strides& at, int64_t n, int64_t h, int64_t w) {
  constexpr int64_t kUnit = 8;  // elements of 16 bits
  const auto is_multiple = [](int64_t extent, int64_t stride) {
    return extent == 1 || stride % kUnit == 0;
  };
  return is_multiple(n, at.n) && is_multiple(h, at.h) && is_multiple(w, at.w);
}

Kernel kernel_of(const Conv2dProblem& problem, const ForwardPass& pass) {
  if (has_rows(pass) && !has_channels(pass)) return Kernel::kRows;
  const bool fill_units = problem.c * size_of(problem.type) % 16 == 0;
  return fill_units ? Kernel::kVectors : Kernel::kSquares;
}

bool has_filter(int64_t side, int64_t stride, Kernel kernel) {
  if (kernel == Kernel::kRows) return stride == kRowStride && (side == 3 || side == 4);
  if (kernel == Kernel::kVectors) return (side == 3 || side == 5) && (stride == 1 || stride == 2);
  if (side == 4) return stride == 2;
  if (side == 3 || side == 5) return stride == 1 || stride == 2;
  return side == 7 && stride == 1;
}

double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  constexpr double kLaunchMs = 0.003;
  const double memory_rate = plan.kernel == Kernel::kSquares ? 0.5 : 0.9;  // as a part of a copy's
  const double memory = problem.bytes() / (chip.memory_rate * memory_rate);
  if (plan.kernel == Kernel::kRows) return kLaunchMs + memory * 1e3;
  const bool squares = plan.kernel == Kernel::kSquares;
  const VectorTile tile = plan.tile();
  // Instructions of a thread, of what it reads together, of each element of that, of a product and
  // of a result; and the part of all that may be issued.
  constexpr double kBegin = 100, kRead = 5, kUnpacked = 1, kStored = 8;
  constexpr double kIssued = 0.5;
  const double results = tile.rows * tile.columns, channels = tile.channels;
  const double window = ((tile.rows - 1) * plan.stride + plan.side) *
                        static_cast<double>((tile.columns - 1) * plan.stride + plan.side);
  const double unpacked = squares ? 0 : kUnpacked * channels;
  const double instructions = kBegin + window * (kRead + unpacked) +
                              plan.side * plan.side * (results + 1) * channels + results * kStored;
  const double threads = static_cast<double>(plan.blocks) * plan.threads;
  const double math =
      threads * instructions / (chip.cycle_rate() * chip.multiply_adds.float32 * kIssued);
  return kLaunchMs + std::max(memory, math) * 1e3;
}

void set_rows(Plan& plan, int64_t n) {
  Arguments& args = plan.args;
  args.row_tiles = FastDiv(ceil_div(args.p, kWarpRows));
  args.column_tiles = FastDiv(ceil_div(args.q, kWarpColumns));
  args.image_channels = FastDiv(args.channels);
  args.tiles = n * args.channels * args.row_tiles.divisor * args.column_tiles.divisor;
  plan.threads = kBlockThreads / 2;
  plan.blocks = ceil_div(args.tiles, plan.threads / 32);
}

void set_squares(Plan& plan, int64_t n) {
  Arguments& args = plan.args;
  args.row_tiles = FastDiv(ceil_div(args.p, kSquareSide));
  args.column_tiles = FastDiv(ceil_div(args.q, kSquareSide));
  args.tiles = n * args.row_tiles.divisor * args.column_tiles.divisor;
  const int64_t channel_tiles = ceil_div(args.channels, kMostLanes);
  const int64_t lanes = ceil_div(args.channels, channel_tiles);
  args.channel_tiles = FastDiv(channel_tiles);
  args.lanes = FastDiv(lanes);
  args.block_squares = static_cast<int32_t>(kBlockThreads / lanes);
  plan.threads = static_cast<int32_t>(lanes) * args.block_squares;
  plan.blocks = ceil_div(args.tiles, args.block_squares) * channel_tiles;
}

// Threads of a block along channels: those that leave the fewest threads of all blocks idle. Unless
// they have all channels, theirs fill whole sectors of memory, 32 bytes.
int32_t vector_lanes(int64_t cells, int32_t channels) {
  constexpr int32_t kLeast = 4;
  const int32_t most = channels == 8 ? 24 : 32, step = 16 / channels;
  const auto idle = [&](int64_t lanes) {
    const int64_t of_block = kVectorThreads / lanes * lanes;
    return static_cast<double>(ceil_div(cells, lanes) * lanes) / static_cast<double>(of_block);
  };
  auto best = static_cast<int32_t>(std::min<int64_t>(cells, most));
  if (best < cells) best -= best % step;
  for (int32_t lanes = best - 1; lanes >= kLeast; --lanes) {
    constexpr double kWorthIt = 0.98;  // wider blocks read longer pieces of memory
    if (lanes % step == 0 && idle(lanes) < kWorthIt * idle(best)) best = lanes;
  }
  return best;
}

FilterOrder filter_order(const Conv2dProblem& problem, const Arguments& args) {
  const int64_t side = problem.r;
  if (args.filter_channel != side * side) return FilterOrder::kOther;
  if (args.filter_column == 1 && args.filter_row == side) return FilterOrder::kForward;
  if (args.filter_column == -1 && args.filter_row == -side) return FilterOrder::kBackward;
  return FilterOrder::kOther;
}

void set_vectors(Plan& plan, const Conv2dProblem& problem) {
  constexpr int64_t kMostGroupRows = 8;
  const VectorTile tile = plan.tile();
  Arguments& args = plan.args;
  const int64_t rows = ceil_div(args.p, tile.rows);
  args.row_tiles = FastDiv(ceil_div(rows, kMostGroupRows));
  args.group_rows = FastDiv(ceil_div(rows, args.row_tiles.divisor));
  args.column_tiles = FastDiv(ceil_div(args.q, tile.columns));
  args.tiles =
      problem.n * args.row_tiles.divisor * args.group_rows.divisor * args.column_tiles.divisor;
  const int64_t cells = args.channels / tile.channels;
  const int32_t lanes = vector_lanes(cells, tile.channels);
  args.lanes = FastDiv(lanes);
  args.channel_tiles = FastDiv(ceil_div(cells, lanes));
  args.block_squares = kVectorThreads / lanes;
  args.filter_order = filter_order(problem, args);
  plan.threads = kVectorThreads;
  plan.blocks = ceil_div(args.tiles, args.block_squares) * args.channel_tiles.divisor;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const char* const kernel = plan.kernel == Kernel::kRows      ? " rows"
                             : plan.kernel == Kernel::kSquares ? " squares"
                                                               : " vectors";
  os << plan.direction << kernel << " filter=" << plan.side << 'x' << plan.side
     << " stride=" << plan.stride;
  if (plan.kernel == Kernel::kVectors) {
    const VectorTile tile = plan.tile();
    os << " tile=" << tile.rows << 'x' << tile.columns << 'x' << tile.channels;
  }
  return os << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction) {
  if (direction == Direction::kWgrad) return "it computes no weight gradients";
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (problem.type == DataType::kFloat64) return "the element type is float64";
  if (problem.groups != problem.c || problem.groups != problem.k) {
    return "its groups are not of one input and one output channel";
  }
  const int64_t stride = problem.stride_h;
  const ForwardPass pass = forward_pass_of(problem, direction);
  const Kernel kernel = kernel_of(problem, pass);
  const bool rows = kernel == Kernel::kRows;
  const bool is_square = problem.r == problem.s && problem.stride_h == problem.stride_w &&
                         problem.dilation_h == 1 && problem.dilation_w == 1;
  if (!is_square || !has_filter(problem.r, stride, kernel)) {
    return rows ? "its filter is neither 3x3 nor 4x4 with a stride of 2"
                : "it has none of the filters and strides that kernels are built for";
  }
  if (direction == Direction::kDgrad && stride != 1) return "it is an input gradient with a stride";
  // Tiles have numbers of 32 bits.
  constexpr int64_t kMostTiles = INT32_MAX / 2;
  if (pass.p * pass.q > kMostTiles / problem.n / (rows ? problem.c : 1)) {
    return "its tiles are too many";
  }
  if (rows) {
    if (problem.type != DataType::kFloat32) return "rows are innermost, but not of float32";
    if (pass.pad_left != kPadLeft) return "the padding on the left is not 1";
    const Strides& at = pass.source;
    if (pass.w % 2 != 0 || at.n % 2 != 0 || at.c % 2 != 0 || at.h % 2 != 0) {
      return "rows are not of whole pairs of pixels";
    }
    return "";
  }
  if (!has_channels(pass)) return "neither rows nor channels are innermost in both tensors";
  if (kernel == Kernel::kSquares) return "";
  if (size_of(problem.type) != 2) return "channels fill whole 16 bytes, but not of 16-bit values";
  if (!is_in_units(pass.source, problem.n, pass.h, pass.w) ||
      !is_in_units(pass.result, problem.n, pass.p, pass.q)) {
    return "channels fill whole 16 bytes, but pixels do not lie whole 16 bytes apart";
  }
  return "";
}

namespace {

Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip, bool small) {
  const ForwardPass pass = forward_pass_of(problem, direction);
  Plan plan{.direction = direction,
            .kernel = kernel_of(problem, pass),
            .side = static_cast<int32_t>(problem.r),
            .stride = static_cast<int32_t>(problem.stride_h),
            .small = small};
  Arguments& args = plan.args;
  args.channels = static_cast<int32_t>(problem.c);
  args.h = static_cast<int32_t>(pass.h);
  args.w = static_cast<int32_t>(pass.w);
  args.p = static_cast<int32_t>(pass.p);
  args.q = static_cast<int32_t>(pass.q);
  args.pad_top = static_cast<int32_t>(pass.pad_top);
  args.pad_left = static_cast<int32_t>(pass.pad_left);
  args.source = pass.source;
  args.result = pass.result;
  args.filter_first = pass.filter_first;
  args.filter_channel = problem.filter.n;
  args.filter_row = pass.filter_row;
  args.filter_column = pass.filter_column;
  if (plan.kernel == Kernel::kRows) set_rows(plan, problem.n);
  if (plan.kernel == Kernel::kSquares) set_squares(plan, problem.n);
  if (plan.kernel == Kernel::kVectors) set_vectors(plan, problem);
  plan.estimated_ms = estimate_ms(problem, plan, chip);
  return plan;
}

}  // namespace

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  std::vector<Plan> plans = {make_plan(problem, direction, chip, false)};
  const Plan& first = plans.front();
  if (first.kernel == Kernel::kVectors && has_small_tile(first.side, first.stride)) {
    plans.push_back(make_plan(problem, direction, chip, true));
    if (plans[1].estimated_ms < plans[0].estimated_ms) std::swap(plans[0], plans[1]);
  }
  return plans;
}

}  // namespace haloconv::depthwise_direct
