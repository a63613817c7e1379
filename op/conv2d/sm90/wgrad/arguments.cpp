#include "conv2d/sm90/wgrad/arguments.h"

#include <algorithm>
#include <numeric>

#include "conv2d/integers.h"

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

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  Arguments a{};
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
  // A single tap has no dilation: generic_declines() lets any pass.
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
  a.segments_of_row = narrow(ceil_div(a.q, a.segment));
  const int64_t segments = problem.n * a.p * a.segments_of_row;
  if (segments > kMaxSegments) return std::nullopt;
  a.segments = narrow(segments);
  a.strips = narrow(ceil_div(segments, kSegments));
  a.split_strips = narrow(ceil_div(a.strips, plan.splits));
  a.splits = narrow(ceil_div(a.strips, a.split_strips));
  a.round_strips = std::max(1, kRoundPixels / (kSegments * a.group_pixels()));
  a.parts = a.splits * (a.share == Share::kPixels ? kMathGroups : 1);
  // In floating point: the product of five 32-bit counts may pass 64 bits.
  if (static_cast<double>(a.groups) * a.splits * a.row_tiles * a.run_tiles * a.channel_tiles >
      INT32_MAX) {
    return std::nullopt;
  }

  constexpr int64_t kMaxCells = kMaxShared / 16;
  const auto output_vectors = [&](int64_t n) {
    return are_vectors(n, problem.output, problem.n, problem.k, a.p, a.q);
  };
  a.output_vector = output_vectors(4) ? 4 : output_vectors(2) ? 2 : 1;
  a.input_vector = 1;
  if (a.stride_w == 1 && are_vectors(4, problem.input, problem.n, problem.c, a.h, a.w)) {
    a.input_vector = 4;
    a.lead = narrow(round_up(problem.pad_left, 4) - problem.pad_left);
  }
  const int64_t plane_columns =
      a.lead + a.segment + (int64_t{a.runs_of_class} * a.slot_taps - 1) * a.shift_step;
  const int64_t plane_cells = plane_columns * a.slot_channels;
  int32_t planes = 0, quads = 0;
  for (int32_t tile = 0; tile < a.run_tiles; ++tile) {
    Block b{};
    a.set_columns(b, tile * a.channel_tiles);
    planes = std::max(planes, a.planes(b));
    quads = std::max(quads, a.quads(b));
  }
  if (plane_cells > kMaxCells || plane_cells * planes > kMaxCells) return std::nullopt;
  a.plane_columns = narrow(plane_columns);
  a.plane_cells = narrow(plane_cells);
  // Odd: then 8 threads, of two rows and four segments, read 8 different groups of four banks.
  a.segment_cells = a.segment / 4 | 1;
  a.grad_at = narrow(plane_cells * planes * 16);
  a.stage_bytes = a.grad_at + a.tile_rows * kSegments * a.segment_cells * 16;
  a.stages = plan.stages;
  if (int64_t{a.stages} * a.stage_bytes > kMaxShared) return std::nullopt;
  a.quads_at = a.stages * a.stage_bytes;
  a.segments_at = a.quads_at + quads * kQuadBytes;
  a.barriers_at = a.segments_at + kLoadWarps * kSegments * kSegmentBytes;

  a.segments_of_row_div = FastDiv(a.segments_of_row);
  a.p_div = FastDiv(a.p);
  return a;
}

int64_t workspace_bytes(const Arguments& args, bool with_bias) {
  return args.parts * (args.part_floats() + (with_bias ? args.bias_floats() : 0)) * 4;
}

int64_t shared_bytes(const Arguments& args) { return args.barriers_at + kBarrierBytes; }

}  // namespace haloconv::sm90::wgrad
