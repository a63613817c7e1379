#include "conv2d/families/wgrad/arguments.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "conv2d/families/wgrad/argument_steps.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::wgrad {

namespace {

// Whether rows of so many pixels are whole vectors of n, aligned if the first is.
bool are_vectors(int64_t n, const Strides& strides, int64_t images, int64_t channels, int64_t rows,
                 int64_t pixels) {
  const auto fits = [n](int64_t extent, int64_t stride) { return extent == 1 || stride % n == 0; };
  return pixels % n == 0 && fits(images, strides.n) && fits(channels, strides.c) &&
         fits(rows, strides.h);
}

// A ring has one window and what the strips of the other stages add to it. It has two windows at
// least, so that one is read while a walk's first is written, unless walks are so long that this
// counts for little.
int32_t fresh_lines(const Arguments& a) { return std::min(a.line_step, a.window_lines); }
int32_t least_ring_lines(const Arguments& a) {
  constexpr int32_t kLongWalk = 128;
  return a.walk_rows >= kLongWalk ? 0 : 2 * a.window_lines;
}
int32_t ring_lines_of(const Arguments& a, int32_t stages) {
  return std::max(least_ring_lines(a), a.window_lines + (stages - 1) * fresh_lines(a));
}

// Cells that a block's ring may have.
int64_t max_cells(const Arguments& a) { return kMaxShared / 16 / a.terms; }

// Sets by how many pixels whole segments can be copied at once if they shift, and from a row to the
// next by how many columns (shifted_segments.h). 0: that would be no more than without.
void set_plane_vector(const Conv2dProblem& problem, Arguments& a) {
  a.plane_vector = a.plane_shift = 0;
  if (a.output_vector < 2 || a.stride_w > 1 || a.row_step > 1) return;
  int32_t vector = a.segments;  // of planes one after the other
  while (!are_vectors(vector, problem.output, problem.n, problem.k, 1, vector)) vector /= 2;
  const int32_t shift = (vector - a.output_p % vector) % vector;
  if (vector <= a.output_vector || shift == 0) return;
  a.plane_vector = vector;
  a.plane_shift = shift;
}

// Columns of a plane beside a segment's own.
int64_t halo_columns(const Arguments& a) {
  return a.left_columns + (int64_t{a.runs_of_class} * a.mma_taps - 1) * a.shift_step;
}

// Of the segment that is set: lets whole segments shift if the plan can. Returns the pixels that a
// line has beside its halo.
int32_t shift_segments(Arguments& a) {
  constexpr int32_t kLine = 32;  // pixels, see make_arguments()
  const int32_t most = a.plane_vector - std::gcd(a.plane_vector, a.plane_shift);
  if (a.plane_vector == 0 || a.terms > 1 || !has_few_sums(a.instructions, a.width) ||
      a.segment % kLine == 0 || a.whole_segments == 0 || a.short_pixels < most ||
      a.group_pixels() < most ||
      a.walk_rows % a.plane_vector * a.plane_shift % a.plane_vector != 0) {
    return a.segment;
  }
  a.whole_vector = a.plane_vector;
  a.row_shift = a.plane_shift;
  a.most_shift = most;
  a.left_part = narrow(round_up(most + halo_columns(a), kBatchSteps));
  return std::max(a.segment + most, a.left_part + a.short_pixels);
}

// The step at which walks of so many rows of an image, one after the other, have passed the last.
int32_t restart_step(const Arguments& a, int32_t rows) {
  const int32_t step = rows % a.walk_rows;
  return step > 0 && a.line_step < a.window_lines ? step : kNoStep;
}

}  // namespace

Arguments start_arguments(const Conv2dProblem& problem, bool precise) {
  Arguments a{};
  a.segments = segments_of(size_of(problem.type));
  a.terms = precise ? 2 : 1;
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

  const int32_t common_h = std::gcd(a.stride_h, a.dilation_h);
  a.line_step = a.stride_h / common_h;
  a.row_step = std::min(a.dilation_h / common_h, a.p);
  const int32_t common_w = std::gcd(a.stride_w, a.dilation_w);
  a.class_step = a.stride_w / common_w;
  a.shift_step = a.dilation_w / common_w;
  a.classes = std::min(a.class_step, a.taps_w);

  const auto output_vectors = [&](int64_t n) {
    return are_vectors(n, problem.output, problem.n, problem.k, a.p, a.q);
  };
  a.output_vector = a.segments;  // 16 bytes
  while (!output_vectors(a.output_vector)) a.output_vector /= 2;
  set_plane_vector(problem, a);
  a.input_vector = 1;
  if (a.stride_w == 1 && are_vectors(4, problem.input, problem.n, problem.c, a.h, a.w)) {
    a.input_vector = 4;
    a.left_columns = narrow(round_up(problem.pad_left, 4) - problem.pad_left);
  }
  return a;
}

void set_columns(const Instance& instance, int mma_channels, int tile_runs, int tile_groups,
                 Arguments& a) {
  a.instructions = instance.instructions;
  a.width = instance.width;
  a.mma_channels = mma_channels;
  a.mma_taps = a.width / a.mma_channels;
  const int64_t class_taps = ceil_div(a.taps_w, a.class_step);
  a.runs_of_class = narrow(ceil_div(class_taps, a.mma_taps));
  a.runs = a.taps_h * a.runs_of_row();
  a.tile_runs = tile_runs;
  a.tile_groups = tile_groups;
  a.run_tiles = narrow(ceil_div(a.runs, a.tile_runs));
  a.channel_tiles = narrow(ceil_div(a.channels, a.tile_groups * a.mma_channels));
  a.window_lines = 1;
  for (int32_t tile = 0; a.tile_runs > 1 && tile < a.run_tiles; ++tile) {
    Block b{};
    a.set_columns(b, tile * a.channel_tiles);
    a.window_lines = std::max(a.window_lines, b.rows);
  }
}

void set_share(Share share, Arguments& a) {
  a.share = share;
  a.tile_rows = kRowsOfGroup * (share == Share::kChannels ? kMathGroups : 1);
  a.row_tiles = narrow(ceil_div(a.rows, a.tile_rows));
}

Walks make_walks(const Arguments& a, int segment, int walk_rows) {
  Walks made{.interleaved = walk_rows > 0};
  const int64_t rows = ceil_div(a.p, a.row_step);
  int64_t fewest = kMaxSegments / a.segments;
  const auto try_divided = [&](int64_t divisions) {
    const int64_t rows_of_walk = ceil_div(rows, divisions);
    const int64_t of_column = int64_t{a.images} * a.row_step * divisions;
    const int64_t whole = of_column * (a.q / segment);
    const int64_t short_ones = a.q % segment != 0 ? of_column : 0;
    const int64_t first_short = round_up(whole, a.segments);
    if (first_short + short_ones > kMaxSegments) return;
    const int64_t strips = ceil_div(first_short + short_ones, a.segments) * rows_of_walk;
    if (strips >= fewest) return;
    fewest = strips;
    made.walk_rows = narrow(rows_of_walk);
    made.walks_of_rows = narrow(a.row_step * divisions);
    made.whole = narrow(whole);
    made.short_ones = narrow(short_ones);
    made.first_short = short_ones > 0 ? narrow(first_short) : kNoWalk;
    made.strips = narrow(strips);
    made.restarts = (a.p / a.row_step % rows_of_walk != 0) + (rows % rows_of_walk != 0);
  };
  if (walk_rows > 0) {
    try_divided(ceil_div(rows, walk_rows));
  } else {
    for (const int64_t divisions : {1, 2, 4}) try_divided(divisions);
  }
  return made;
}

bool set_segment(int segment, bool may_shift, Arguments& a) {
  a.segment = segment;
  a.whole_segments = a.q / a.segment;
  a.short_pixels = a.q % a.segment;
  a.zero_cells = 0;
  for (int32_t group = 0; group < kMathGroups; ++group) {
    const int32_t pixels =
        std::clamp(a.short_pixels - a.first_pixel_of(group), 0, a.group_pixels());
    a.short_pixels_of[group] = pixels;
    // A load has as many pixels of a segment as there are segments: 16 bytes. There is one at
    // least.
    const bool has_zeros = a.short_pixels > 0 && (pixels == 0 || pixels % a.segments != 0);
    if (has_zeros) a.zero_cells = a.mma_cells();
  }
  const int pixels = a.terms > 1 ? kPreciseRoundPixels : kRoundPixels;
  a.round_strips = narrow(
      std::bit_floor(static_cast<uint32_t>(std::max(1, pixels / (a.segments * a.group_pixels())))));
  a.whole_vector = a.output_vector;
  a.row_shift = a.most_shift = a.left_part = 0;
  const int64_t plane_columns = halo_columns(a) + (may_shift ? shift_segments(a) : a.segment);
  const int64_t plane_cells = plane_columns * a.mma_channels;
  if (plane_cells > max_cells(a) || plane_cells * a.planes() * a.window_lines > max_cells(a)) {
    return false;
  }
  a.plane_columns = narrow(plane_columns);
  a.plane_cells = narrow(plane_cells);
  a.line_cells = a.planes() * a.plane_cells;
  a.fresh_cells = std::min(a.line_step, a.window_lines) * a.line_cells;
  a.window_cells = a.window_lines * a.line_cells;
  // Odd: then 8 threads, of two rows and four segments, read 8 different groups of four banks.
  a.segment_cells = a.segment / a.segments | 1;
  return true;
}

bool set_walks(const Walks& walks, Arguments& a) {
  if (walks.strips == 0) return false;
  a.walk_rows = walks.walk_rows;
  a.walks_of_rows = walks.walks_of_rows;
  a.whole_walks = walks.whole;
  a.short_walks = walks.short_ones;
  a.first_short_walk = walks.first_short;
  a.restart_steps[0] = restart_step(a, a.p / a.row_step);
  a.restart_steps[1] = restart_step(a, narrow(ceil_div(a.p, a.row_step)));
  return true;
}

bool set_splits(const Walks& walks, int splits, Arguments& a) {
  a.strips = walks.strips;
  a.split_strips = narrow(ceil_div(a.strips, splits));
  a.split_flights = 1;
  if (walks.interleaved) {
    a.split_flights = narrow(ceil_div(a.split_strips, a.walk_rows));
    a.split_strips = narrow(int64_t{a.split_flights} * a.walk_rows);
  }
  a.splits = narrow(ceil_div(a.strips, a.split_strips));
  if (walks.interleaved) {  // some have segments that are none
    const int64_t strips = int64_t{a.splits} * a.split_strips;
    if (strips > kMaxSegments / a.segments) return false;
    a.strips = narrow(strips);
  }
  a.partials = a.splits * (a.share == Share::kPixels ? kMathGroups : 1);
  // In floating point: the product of five 32-bit counts may pass 64 bits.
  return static_cast<double>(a.groups) * a.splits * a.row_tiles * a.run_tiles * a.channel_tiles <=
         INT32_MAX;
}

bool set_boxes(bool boxes, Arguments& a) {
  a.boxes = boxes;
  if (!boxes) {
    a.stage_bytes = a.tile_rows * a.row_cells(a.segments) * 16;
    return true;
  }
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

bool set_stages(int stages, Arguments& a) {
  a.stages = stages;
  a.ring_lines = ring_lines_of(a, a.stages);
  a.most_behind = std::min((a.ring_lines - a.window_lines) / std::min(a.line_step, a.window_lines),
                           a.stages - 1);
  if (int64_t{a.line_cells} * a.ring_lines > max_cells(a)) return false;
  a.ring_cells = a.ring_lines * a.line_cells;
  a.zeros_at = a.ring_cells * a.terms * 16;
  a.grad_at = a.zeros_at + a.zero_cells * 16;
  a.bundles_at = a.grad_at + a.stages * a.stage_bytes;
  // As many as an input has that turns out not to be aligned.
  a.segments_at = a.bundles_at + a.planes() * (a.mma_channels / kFewestLaneChannels) * kBundleBytes;
  a.shifts_at = a.segments_at + kLoadWarps * a.segments * kSegmentBytes;
  a.barriers_at = a.shifts_at + kShiftBytes;
  return shared_bytes(a) <= kMaxShared;
}

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  if (plan.segment % segments_of(size_of(problem.type)) != 0 ||
      (plan.boxes && problem.type != DataType::kFloat32)) {
    return std::nullopt;
  }
  Arguments a = start_arguments(problem, plan.precise);
  set_columns(plan.instance, plan.mma_channels, plan.tile_runs, plan.tile_groups, a);
  set_share(plan.share, a);
  const Walks walks = make_walks(a, plan.segment, plan.walk_rows);
  if (!set_walks(walks, a) || !set_splits(walks, plan.splits, a)) return std::nullopt;
  // Segments shift where splits are interleaved and segments are no whole 32 pixels: otherwise
  // plans that shift took 1.1 to 1.2 times as long as those that do not, on an H200.
  const auto set_others = [&](bool may_shift) {
    return set_segment(plan.segment, may_shift, a) && set_boxes(plan.boxes, a) &&
           set_stages(plan.stages, a);
  };
  const bool may_shift = plan.walk_rows > 0 && !plan.boxes;
  if (!(may_shift && set_others(true)) && !set_others(false)) return std::nullopt;
  a.whole_segments_div = FastDiv(std::max(1, a.whole_segments));
  a.walk_rows_div = FastDiv(a.walk_rows);
  a.walks_of_rows_div = FastDiv(a.walks_of_rows);
  a.row_step_div = FastDiv(a.row_step);
  a.split_flights_div = FastDiv(a.split_flights);
  return a;
}

int64_t partial_bytes(const Arguments& args, bool with_bias) {
  return (args.partial_floats() + (with_bias ? args.bias_floats() : 0)) * 4;
}

int64_t workspace_bytes(const Arguments& args, bool with_bias) {
  return args.partials * partial_bytes(args, with_bias);
}

int64_t shared_bytes(const Arguments& args) { return args.barriers_at + kBarrierBytes; }

int32_t most_stages(const Arguments& args, int64_t shared) {
  const int64_t line_bytes = int64_t{args.line_cells} * args.terms * 16;
  // Of the ring and of the stages.
  const int64_t room = shared - shared_bytes(args) + args.ring_lines * line_bytes +
                       int64_t{args.stages} * args.stage_bytes;
  const int64_t fresh = fresh_lines(args);
  const int64_t by_windows =
      (room - (args.window_lines - fresh) * line_bytes) / (fresh * line_bytes + args.stage_bytes);
  const int64_t by_least = (room - least_ring_lines(args) * line_bytes) / args.stage_bytes;
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(by_windows, by_least), 0, kMaxStages));
}

}  // namespace haloconv::wgrad
