#include <algorithm>
#include <span>

#include "conv2d/families/first_layers/plan.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::first_layers {

namespace {

constexpr int32_t kMostBoxed = 256;  // by the copy engine, along a dimension
constexpr int64_t kMostRows = int64_t{1} << 30;

int32_t positions(int64_t extent, int64_t pad, int64_t stride) {
  return narrow((extent - 1 + pad) / stride - pad / stride + 1);
}

int32_t taps_of(int64_t taps, int64_t dilation, int64_t stride) {
  return narrow(((taps - 1) * dilation) / stride + 1);
}

// How many rests have a tap in the last row or column of taps, if not all have taps there.
int32_t last_rests(int64_t taps, int64_t dilation, int64_t stride) {
  return narrow((taps - 1) * dilation % stride + 1);
}

// Which zeros that are no taps are multiplied with, and whether results may show them.
void find_zeros(const Conv2dProblem& problem, const DgradShape& shape, DgradArguments& args) {
  args.last_rests_h = args.stride_h.divisor, args.last_rests_w = args.stride_w.divisor;
  const bool has_distances =
      (problem.r > 1 && problem.dilation_h > 1) || (problem.s > 1 && problem.dilation_w > 1);
  args.mends = has_distances;
  if (has_distances) return;
  args.last_rests_h = last_rests(problem.r, problem.dilation_h, problem.stride_h);
  args.mends = args.taps_h == 1 && args.last_rests_h < problem.stride_h;
  const int64_t first = last_rests(problem.s, problem.dilation_w, problem.stride_w);
  const int64_t second = problem.stride_w - first, half = shape.channels / 2;
  if (second == 0) return;
  const int64_t of_rest = problem.stride_h * problem.c;
  if (!dgrad_can_halve(shape.channels) || first * of_rest > half || second * of_rest > half) {
    args.mends = true;
    return;
  }
  args.last_rests_w = narrow(first), args.second_half = narrow(half);
}

int32_t bytes_of_element(const Conv2dProblem& problem) { return narrow(size_of(problem.type)); }

// Windows of 64 channels, of which half do not exist, would keep the copy engine longer. With 96
// channels they are the faster ones (convnext_stem 26.1 us, of 32 channels 28.3).
int32_t channels_of_chunk(const Conv2dProblem& problem) {
  const int32_t few = kNarrowPixelBytes / bytes_of_element(problem);
  return !has_rows_innermost(problem) && problem.k <= few ? few : 2 * few;
}

DgradArguments make_arguments(const Conv2dProblem& problem, const DgradShape& shape) {
  const int32_t element_bytes = bytes_of_element(problem), unit = 16 / element_bytes;
  const int32_t chunk_channels = channels_of_chunk(problem);
  DgradArguments args{};
  args.element_bytes = element_bytes;
  args.output_n = problem.output.n, args.output_k = problem.output.c;
  args.output_p = problem.output.h, args.output_q = problem.output.w;
  args.input_n = problem.input.n, args.input_c = problem.input.c;
  args.input_h = problem.input.h;
  args.filter_k = problem.filter.n, args.filter_c = problem.filter.c;
  args.filter_r = problem.filter.h, args.filter_s = problem.filter.w;
  args.k = narrow(problem.k), args.p = narrow(problem.p()), args.q = narrow(problem.q());
  args.h = narrow(problem.h), args.w = narrow(problem.w);
  args.pad_top = narrow(problem.pad_top), args.pad_left = narrow(problem.pad_left);
  args.dilation_h = narrow(problem.dilation_h), args.dilation_w = narrow(problem.dilation_w);
  args.c = FastDiv(problem.c), args.r = FastDiv(problem.r), args.s = FastDiv(problem.s);
  args.stride_h = FastDiv(problem.stride_h), args.stride_w = FastDiv(problem.stride_w);
  args.first_row = narrow(problem.pad_top / problem.stride_h);
  args.first_column = narrow(problem.pad_left / problem.stride_w);
  args.taps_h = taps_of(problem.r, problem.dilation_h, problem.stride_h);
  args.taps_w = taps_of(problem.s, problem.dilation_w, problem.stride_w);
  args.rows = FastDiv(positions(problem.h, problem.pad_top, problem.stride_h));
  const int32_t columns = positions(problem.w, problem.pad_left, problem.stride_w);
  args.end_column = args.first_column + columns;
  args.strip_columns = shape.blocks * kBlockColumns;
  args.strips = FastDiv(ceil_div(columns, args.strip_columns));
  args.chunk_channels = chunk_channels;
  args.chunks = narrow(ceil_div(problem.k, chunk_channels));
  const int32_t window_columns = args.strip_columns + args.taps_w - 1;
  args.window_bytes = narrow(round_up(window_columns * chunk_channels * element_bytes, kAlignment));
  if (has_rows_innermost(problem)) {
    // The copy engine needs the first column at a multiple of 16 bytes.
    args.box_shift = (args.first_column - (args.taps_w - 1)) & 7;
    args.transposed_columns = narrow(round_up(args.box_shift + window_columns, 8));
    // Channels an even number of 16 bytes apart would meet the same banks.
    args.box_columns = args.transposed_columns | 8;
    args.window_bytes = args.transposed_columns * kPixelBytes;
    args.box_bytes = args.box_columns * kPixelBytes;
  }
  const bool of_all_channels =
      (problem.c == 1 || problem.input.c == 1) && (problem.w == 1 || problem.input.w == problem.c);
  const int64_t of_line = of_all_channels ? problem.c : 1;
  args.lines = FastDiv(of_all_channels ? 1 : problem.c);
  args.line_elements = narrow(problem.w * of_line);
  args.position_elements = narrow(problem.stride_w * of_line);
  args.line_vectors = FastDiv(args.strip_columns * args.position_elements / unit + 1);
  args.shift_step = static_cast<int32_t>(problem.stride_h * problem.input.h & (unit - 1));
  args.filter_taps = FastDiv(problem.r * problem.s * problem.c);
  find_zeros(problem, shape, args);
  return args;
}

// The longer of two times: that of the bytes, including those that two neighbouring warpgroups
// read, and that of a warpgroup's cycles for each row: its instructions, each as long as reading
// its operands, its sums, and the rows of the gradient that it writes.
double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  constexpr double kRowCycles = 800, kSumCycles = 21, kWrittenCycles = 400;
  constexpr double kCrowded = 1.2;          // if four warpgroups share a multiprocessor
  constexpr double kTransposeCycles = 600;  // of a row, for 64 channels
  constexpr double kMemoryRate = 0.92;      // of a copy's
  constexpr double kLaunchMs = 0.006;
  const DgradArguments& args = plan.dgrad;
  const DgradShape& shape = plan.dgrad_shape;
  // In TF32 fitted to resnet50_stem, and to shapes that are too wide for other layers (H200).
  const double instruction = args.element_bytes == 4 ? 3 : 1.8;
  const double again = args.taps_h - 1;  // rows that are brought once more
  const double strips = 1 + double(args.worker_rows) / args.rows.divisor;
  const double rows = args.worker_rows + again * strips;
  const double output_bytes =
      double(problem.n * problem.p() * problem.q() * problem.k) * args.element_bytes;
  const double bytes = problem.bytes() + output_bytes * (rows / args.worker_rows - 1);
  const double memory_ms = bytes / (chip.memory_rate * kMemoryRate) * 1e3;
  const double instructions =
      double(args.taps_w) * double(ceil_div(problem.k, dgrad_depth(args.element_bytes)));
  const double width = shape.rows * shape.channels;
  const double row_cycles =
      kRowCycles +
      shape.blocks * (instructions * instruction * (64 + width) / 4 + shape.channels * kSumCycles +
                      args.stride_h.divisor * kWrittenCycles) +
      (args.boxes > 0 ? args.chunks * kTransposeCycles : 0);
  const double cycles =
      rows * row_cycles * (dgrad_groups(shape, args.element_bytes) == 4 ? kCrowded : 1);
  return kLaunchMs + std::max(memory_ms, cycles / chip.clock_hz * 1e3);
}

// Windows and boxes of a warpgroup; false if there is no room for one window more than a row has.
bool share_room(DgradArguments& args, int64_t room, bool has_boxes) {
  args.windows = args.chunks + 1;
  args.boxes = has_boxes ? 1 : 0;
  if (args.ring_bytes() > room) return false;
  while (true) {
    DgradArguments more = args;
    const bool is_box = has_boxes && args.boxes < std::min(args.windows, kMaxBoxes);
    (is_box ? more.boxes : more.windows) += 1;
    if (more.windows > kMaxWindows || more.ring_bytes() > room) return true;
    args = more;
  }
}

}  // namespace

std::vector<Plan> make_dgrad_plans(const Conv2dProblem& problem, const Chip& chip) {
  std::vector<Plan> plans;
  Plan plan;
  plan.direction = Direction::kDgrad;
  plan.rows_innermost = has_rows_innermost(problem);
  DgradArguments& args = plan.dgrad;
  const int64_t channels = problem.stride_h * problem.stride_w * problem.c;
  const int32_t element_bytes = bytes_of_element(problem);
  const std::span<const DgradShape> shapes =
      element_bytes == 4 ? std::span<const DgradShape>(kDgradTf32Shapes) : kDgradShapes;
  for (const DgradShape& shape : shapes) {
    if (plan.rows_innermost && shape.blocks > 1) continue;
    args = make_arguments(problem, shape);
    const int64_t all_rows = problem.n * args.rows.divisor * args.strips.divisor;
    if (args.taps_h > shape.rows || channels > shape.channels || all_rows > kMostRows ||
        std::max(args.strip_columns + args.taps_w - 1, args.box_columns) > kMostBoxed) {
      continue;
    }
    args.all_rows = narrow(all_rows);
    const int64_t groups = dgrad_groups(shape, element_bytes);
    const int64_t filter_bytes = int64_t{args.chunks} * args.taps_w * shape.rows * shape.channels *
                                 args.chunk_channels * element_bytes;
    const int64_t room =
        kSharedBytes - kAlignment - filter_bytes - 2 * groups * args.staging_bytes();
    if (!share_room(args, room / groups, plan.rows_innermost)) continue;
    args.filter_bytes = narrow(filter_bytes);
    args.filter_step = std::max(1, narrow(groups * 128) / args.filter_taps.divisor);
    args.worker_rows = narrow(ceil_div(args.all_rows, groups * chip.multiprocessors));
    plan.dgrad_blocks = ceil_div(args.all_rows, groups * args.worker_rows);
    plan.dgrad_shape = shape;
    plan.channels = shape.rows * shape.channels;
    plan.shared_bytes =
        kAlignment + filter_bytes + groups * args.ring_bytes() + 2 * groups * args.staging_bytes();
    plan.estimated_ms = estimate_ms(problem, plan, chip);
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace haloconv::sm90::first_layers
