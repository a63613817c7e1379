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

bool has_filter(int64_t side, int64_t stride, bool rows) {
  if (rows) return stride == kRowStride && (side == 3 || side == 4);
  if (side == 4) return stride == 2;
  if (side == 3 || side == 5) return stride == 1 || stride == 2;
  return side == 7 && stride == 1;
}

double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  constexpr double kLaunchMs = 0.003;
  const double memory_rate = plan.has_rows ? 0.9 : 0.5;  // as a part of a copy's
  const double memory = problem.bytes() / (chip.memory_rate * memory_rate);
  if (plan.has_rows) return kLaunchMs + memory * 1e3;
  // Instructions of a thread, of an element that it reads, of a product and of a result; and the
  // part of all that may be issued.
  constexpr double kBegin = 100, kRead = 5, kStored = 8, kResults = kSquareSide * kSquareSide;
  constexpr double kIssued = 0.5;
  const double side = (kSquareSide - 1) * plan.stride + plan.side;
  const double instructions =
      kBegin + side * side * kRead + plan.side * plan.side * (kResults + 1) + kResults * kStored;
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

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction << (plan.has_rows ? " rows" : " squares") << " filter=" << plan.side
            << 'x' << plan.side << " stride=" << plan.stride
            << " workspace=" << plan.workspace_bytes;
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
  const bool rows = has_rows(pass) && !has_channels(pass);
  const bool is_square = problem.r == problem.s && problem.stride_h == problem.stride_w &&
                         problem.dilation_h == 1 && problem.dilation_w == 1;
  if (!is_square || !has_filter(problem.r, stride, rows)) {
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
  if (problem.c * size_of(problem.type) % 16 == 0) return "channels fill whole 16 bytes";
  return "";
}

Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  const ForwardPass pass = forward_pass_of(problem, direction);
  Plan plan{.direction = direction,
            .has_rows = has_rows(pass) && !has_channels(pass),
            .side = static_cast<int32_t>(problem.r),
            .stride = static_cast<int32_t>(problem.stride_h)};
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
  (plan.has_rows ? set_rows : set_squares)(plan, problem.n);
  plan.estimated_ms = estimate_ms(problem, plan, chip);
  return plan;
}

}  // namespace haloconv::depthwise_direct
