#include "conv2d/families/wgrad/arguments.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::wgrad {

namespace {

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// Whether rows of so many pixels are whole vectors of n, aligned if the first is.
bool are_vectors(int64_t n, const Strides& strides, int64_t images, int64_t channels, int64_t rows,
                 int64_t pixels) {
  const auto fits = [n](int64_t extent, int64_t stride) { return extent == 1 || stride % n == 0; };
  return pixels % n == 0 && fits(images, strides.n) && fits(channels, strides.c) &&
         fits(rows, strides.h);
}

// Sets what strips there are; false: too many. A walk has all rows, each row_step'th, or a half or
// a quarter of them, where few walks would leave segments of the last strip idle; or as many as the
// plan says, which splits then take in turns.
bool set_strips(Arguments& a, const Plan& plan) {
  const int32_t common = std::gcd(a.stride_h, a.dilation_h);
  a.line_step = a.stride_h / common;
  a.row_step = std::min(a.dilation_h / common, a.p);
  a.segments_of_row = narrow(ceil_div(a.q, a.segment));
  const int64_t rows = ceil_div(a.p, a.row_step);
  int64_t fewest = kMaxSegments / a.segments;
  const auto try_parts = [&](int64_t parts) {
    const int64_t walk_rows = ceil_div(rows, parts);
    const int64_t walks = int64_t{a.images} * a.segments_of_row * a.row_step * parts;
    if (walks > kMaxSegments) return;
    const int64_t strips = ceil_div(walks, a.segments) * walk_rows;
    if (strips >= fewest) return;
    fewest = strips;
    a.walk_rows = narrow(walk_rows);
    a.walks_of_rows = narrow(a.row_step * parts);
    a.walks = narrow(walks);
    a.strips = narrow(strips);
  };
  if (plan.walk_rows > 0) {
    try_parts(ceil_div(rows, plan.walk_rows));
  } else {
    for (const int64_t parts : {1, 2, 4}) try_parts(parts);
  }
  if (a.strips == 0) return false;
  a.split_strips = narrow(ceil_div(a.strips, plan.splits));
  a.turns = 1;
  if (plan.walk_rows > 0) {
    a.turns = narrow(ceil_div(a.split_strips, a.walk_rows));
    a.split_strips = a.turns * a.walk_rows;
  }
  a.splits = narrow(ceil_div(a.strips, a.split_strips));
  if (plan.walk_rows > 0) {  // some have segments that are none
    const int64_t strips = int64_t{a.splits} * a.split_strips;
    if (strips > kMaxSegments / a.segments) return false;
    a.strips = narrow(strips);
  }
  return true;
}

// Two windows: one is read while a walk's first is written. Else, one window and what the strips
// of the other stages add to it.
int32_t ring_lines_of(int32_t window_lines, int32_t line_step, int32_t stages) {
  const int32_t fresh = std::min(line_step, window_lines);
  return std::max(2 * window_lines, window_lines + (stages - 1) * fresh);
}

// Whether the copy engine can bring grad_output without much that is not used.
bool set_boxes(Arguments& a) {
  constexpr int64_t kMaxStride = int64_t{1} << 38;  // in floats
  a.row_maps = a.p > 1 && a.output_p % 4 != 0 ? 2 : 1;
  int64_t least = 4;
  const auto fits = [&](int64_t extent, int64_t stride) {
    if (extent == 1) return true;  // its stride counts for nothing
    if (stride % 4 != 0 || stride < least || stride >= kMaxStride) return false;
    least = stride;
    return true;
  };
  // Tensors that are expanded or turned around are left to the load warps.
  if (!fits(a.p, int64_t{a.output_p} * a.row_maps) ||
      !fits(int64_t{a.groups} * a.rows, a.output_k) || !fits(a.images, a.output_n)) {
    return false;
  }
  const int32_t most_shift = a.row_maps > 1 ? 2 : 0;
  const int32_t columns = narrow(round_up(a.segment + most_shift, 16));
  if (columns * 7 > a.segment * 8) return false;
  a.boxes = true;
  a.box_columns = columns % 32 == 0 ? 32 : 16;
  a.segment_boxes = columns / a.box_columns;
  a.box_row_bits = std::countr_zero(static_cast<uint32_t>(a.box_columns * 4));
  a.box_bytes = a.tile_rows * a.box_columns * 4;
  // The segments' rows are turned differently: 8 threads, of two rows and four segments, read 8
  // different groups of four banks.
  a.segment_bytes = a.segment_boxes * a.box_bytes + a.box_columns * 8;
  a.stage_bytes = a.segments * a.segment_bytes;
  return true;
}

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  Arguments a{};
  a.segments = segments_of(size_of(problem.type));
  a.parts_of_value = plan.precise ? 2 : 1;
  if (plan.segment % a.segments != 0 || (plan.boxes && problem.type != DataType::kFloat32)) {
    return std::nullopt;
  }
  a.output_n = problem.output.n;
  a.output_k = problem.output.c;
  a.output_p = narrow(problem.output.h);
  a.input_n = problem.input.n;
  a.input_c = problem.input.c;
  a.input_h = narrow(problem.input.h);
  a.images = narrow(problem.n);
  a.p = narrow(problem.p());
  a.q = narrow(problem.q());
  a.h = narrow(problem.h);
  a.w = narrow(problem.w);
  a.groups = narrow(problem.groups);
  a.rows = narrow(problem.group_k());
  a.channels = narrow(problem.group_c());
  a.stride_h = narrow(problem.stride_h);
  a.stride_w = narrow(problem.stride_w);
  // A single tap has no dilation: beyond_limits() lets any pass.
  a.dilation_h = problem.r > 1 ? narrow(problem.dilation_h) : 1;
  a.dilation_w = problem.s > 1 ? narrow(problem.dilation_w) : 1;
  a.pad_top = narrow(problem.pad_top);
  a.pad_left = narrow(problem.pad_left);
  a.taps_h = narrow(problem.r);
  a.taps_w = narrow(problem.s);

  a.slots = plan.instance.slots;
  a.width = plan.instance.width;
  a.slot_channels = plan.slot_channels;
  a.slot_taps = a.width / a.slot_channels;
  const int32_t common = std::gcd(a.stride_w, a.dilation_w);
  a.class_step = a.stride_w / common;
  a.shift_step = a.dilation_w / common;
  a.classes = std::min(a.class_step, a.taps_w);
  const int64_t class_taps = ceil_div(a.taps_w, a.class_step);
  a.runs_of_class = narrow(ceil_div(class_taps, a.slot_taps));
  a.runs = a.taps_h * a.runs_of_row();
  a.tile_runs = plan.tile_runs;
  a.tile_groups = plan.tile_groups;
  a.run_tiles = narrow(ceil_div(a.runs, a.tile_runs));
  a.channel_tiles = narrow(ceil_div(a.channels, a.tile_groups * a.slot_channels));
  a.share = plan.share;
  a.tile_rows = kRowsOfGroup * (a.share == Share::kChannels ? kMathGroups : 1);
  a.row_tiles = narrow(ceil_div(a.rows, a.tile_rows));

  a.segment = plan.segment;
  if (!set_strips(a, plan)) return std::nullopt;
  a.round_strips = narrow(std::bit_floor(static_cast<uint32_t>(std::max(
      1, (plan.precise ? kPreciseRoundPixels : kRoundPixels) / (a.segments * a.group_pixels())))));
  a.parts = a.splits * (a.share == Share::kPixels ? kMathGroups : 1);
  // In floating point: the product of five 32-bit counts may pass 64 bits.
  if (static_cast<double>(a.groups) * a.splits * a.row_tiles * a.run_tiles * a.channel_tiles >
      INT32_MAX) {
    return std::nullopt;
  }

  const int64_t max_cells = kMaxShared / 16 / a.parts_of_value;
  const auto output_vectors = [&](int64_t n) {
    return are_vectors(n, problem.output, problem.n, problem.k, a.p, a.q);
  };
  a.output_vector = a.segments;  // 16 bytes
  while (!output_vectors(a.output_vector)) a.output_vector /= 2;
  a.input_vector = 1;
  if (a.stride_w == 1 && are_vectors(4, problem.input, problem.n, problem.c, a.h, a.w)) {
    a.input_vector = 4;
    a.lead = narrow(round_up(problem.pad_left, 4) - problem.pad_left);
  }
  const int64_t plane_columns =
      a.lead + a.segment + (int64_t{a.runs_of_class} * a.slot_taps - 1) * a.shift_step;
  const int64_t plane_cells = plane_columns * a.slot_channels;
  for (int32_t tile = 0; tile < a.run_tiles; ++tile) {
    Block b{};
    a.set_columns(b, tile * a.channel_tiles);
    a.window_lines = std::max(a.window_lines, b.rows);
  }
  a.stages = plan.stages;
  a.ring_lines = ring_lines_of(a.window_lines, a.line_step, a.stages);
  a.most_behind = std::min((a.ring_lines - a.window_lines) / std::min(a.line_step, a.window_lines),
                           a.stages - 1);
  if (plane_cells > max_cells || plane_cells * a.planes() * a.ring_lines > max_cells) {
    return std::nullopt;
  }
  a.plane_columns = narrow(plane_columns);
  a.plane_cells = narrow(plane_cells);
  a.line_cells = a.planes() * a.plane_cells;
  a.fresh_cells = std::min(a.line_step, a.window_lines) * a.line_cells;
  a.window_cells = a.window_lines * a.line_cells;
  a.ring_cells = a.ring_lines * a.line_cells;
  // Odd: then 8 threads, of two rows and four segments, read 8 different groups of four banks.
  a.segment_cells = a.segment / a.segments | 1;
  a.grad_at = a.ring_cells * a.parts_of_value * 16;
  a.stage_bytes = a.tile_rows * a.row_cells(a.segments) * 16;
  if (plan.boxes && !set_boxes(a)) return std::nullopt;
  a.quads_at = a.grad_at + a.stages * a.stage_bytes;
  a.segments_at = a.quads_at + a.quads() * kQuadBytes;
  a.shifts_at = a.segments_at + kLoadWarps * a.segments * kSegmentBytes;
  a.barriers_at = a.shifts_at + kShiftBytes;
  if (shared_bytes(a) > kMaxShared) return std::nullopt;

  a.segments_of_row_div = FastDiv(a.segments_of_row);
  a.walk_rows_div = FastDiv(a.walk_rows);
  a.walks_of_rows_div = FastDiv(a.walks_of_rows);
  a.row_step_div = FastDiv(a.row_step);
  a.turns_div = FastDiv(a.turns);
  return a;
}

int64_t workspace_bytes(const Arguments& args, bool with_bias) {
  return args.parts * (args.part_floats() + (with_bias ? args.bias_floats() : 0)) * 4;
}

int64_t shared_bytes(const Arguments& args) { return args.barriers_at + kBarrierBytes; }

int32_t most_stages(const Arguments& args, int64_t shared) {
  const auto fits = [&](int32_t stages) {
    const int32_t lines = ring_lines_of(args.window_lines, args.line_step, stages);
    return shared_bytes(args) +
               int64_t{lines - args.ring_lines} * args.line_cells * args.parts_of_value * 16 +
               int64_t{stages - args.stages} * args.stage_bytes <=
           shared;
  };
  int32_t stages = kMaxStages;
  while (stages > 0 && !fits(stages)) --stages;
  return stages;
}

}  // namespace haloconv::sm90::wgrad
