#include "conv2d/families/first_layers/sweep.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::first_layers {

bool is_multiple_of_8(int64_t extent, int64_t stride) {
  return extent == 1 || (stride > 0 && stride % 8 == 0);
}

namespace {

constexpr int32_t kRowsAhead = 8;  // by which load threads may be ahead of what a tile reads

// Tiles of 128 pixels of a row, or of 64 of each of two rows, whichever wastes fewer.
int32_t tile_rows_of(const Conv2dProblem& problem) {
  const int64_t p = problem.p(), q = problem.q();
  const int64_t of_one = p * round_up(q, 128), of_two = round_up(p, 2) * round_up(q, 64);
  return of_two < of_one ? 2 : 1;
}

// Whether neighbours along all axes but the innermost are multiples of 16 bytes apart.
bool is_of_vectors(std::initializer_list<std::pair<int64_t, int64_t>> extents_and_strides,
                   DataType type) {
  const int64_t vector = 16 / size_of(type);
  return std::all_of(extents_and_strides.begin(), extents_and_strides.end(),
                     [&](const auto& of) { return of.first == 1 || of.second % vector == 0; });
}

// count == 0 if the input's rows are not contiguous, or do not begin and end with whole 16 bytes.
Lines make_lines(const Conv2dProblem& problem, const UnitRow& units) {
  Lines lines{};
  const bool of_channels = problem.c == 1 || problem.input.c == 1;
  const bool of_pixels = problem.input.w == (of_channels ? problem.c : 1);
  if (!of_pixels) return {};
  lines.step = of_channels ? narrow(problem.c) : 1;
  lines.elements = narrow(problem.w * lines.step);
  if (lines.elements % units.elements != 0 ||
      !is_of_vectors({{problem.n, problem.input.n},
                      {of_channels ? 1 : problem.c, problem.input.c},
                      {problem.h, problem.input.h}},
                     problem.type)) {
    return {};
  }
  int32_t columns = 0;  // from the first that units read to the end of the last
  for (int32_t i = 0; i < units.planes; ++i) {
    const UnitPlane& plane = units.plane[i];
    const int32_t pixel = std::max(plane.taps - 1, 0);
    columns = std::max(columns, units.column_of(plane, plane.units - 1, pixel) + 1);
  }
  lines.count = of_channels ? 1 : narrow(problem.c);
  lines.pitch =
      narrow(round_up(int64_t{columns} * lines.step + units.elements - 1, units.elements));
  lines.vectors = FastDiv(lines.pitch / units.elements);
  return lines;
}

}  // namespace

Sweep make_sweep(const Conv2dProblem& problem, bool pairs, bool ones, bool is_aligned) {
  Sweep sweep{};
  sweep.tile_rows = tile_rows_of(problem);
  sweep.columns = 128 / sweep.tile_rows;
  sweep.units = make_unit_row(problem, sweep.columns, pairs, ones);
  if (is_aligned && sweep.units.planes > 0) sweep.lines = make_lines(problem, sweep.units);
  sweep.input_n = problem.input.n, sweep.input_h = problem.input.h;
  sweep.input_w = narrow(problem.input.w), sweep.input_c = narrow(problem.input.c);
  sweep.h = narrow(problem.h), sweep.w = narrow(problem.w);
  sweep.pad_top = narrow(problem.pad_top), sweep.pad_left = narrow(problem.pad_left);
  sweep.r = narrow(problem.r);
  sweep.stride_h = narrow(problem.stride_h), sweep.dilation_h = narrow(problem.dilation_h);
  sweep.p = narrow(problem.p()), sweep.q = narrow(problem.q());
  const int64_t strips = ceil_div(problem.q(), sweep.columns);
  const int64_t bands = ceil_div(problem.p(), sweep.tile_rows);
  sweep.strips = FastDiv(strips), sweep.bands = FastDiv(bands);
  sweep.tiles = narrow(problem.n * strips * bands);
  sweep.row_bytes = sweep.units.units * kUnitBytes;
  const int32_t needed = std::max(sweep.rows_of_tile(), sweep.rows_to_next());
  sweep.ring = std::min(kMaxRing, needed + kRowsAhead);
  if (needed >= kMaxRing) sweep.ring = 0;  // no room
  return sweep;
}

FpropArguments fprop_arguments(const Conv2dProblem& problem, bool is_aligned) {
  FpropArguments args{};
  args.sweep = make_sweep(problem, true, false, is_aligned);
  args.filter_k = problem.filter.n, args.filter_c = problem.filter.c;
  args.filter_r = problem.filter.h, args.filter_s = problem.filter.w;
  args.destination_n = problem.output.n, args.destination_c = problem.output.c;
  args.destination_h = problem.output.h, args.destination_w = problem.output.w;
  args.results.channels = narrow(problem.k);
  return args;
}

WgradArguments wgrad_arguments(const Conv2dProblem& problem, const Sweep& sweep, bool with_bias) {
  WgradArguments args{};
  args.sweep = sweep;
  args.with_bias = with_bias;
  args.k = narrow(problem.k), args.c = narrow(problem.c);
  args.r = narrow(problem.r), args.s = narrow(problem.s);
  args.n = narrow(problem.n), args.h = sweep.h, args.w = sweep.w, args.p = sweep.p;
  args.q = sweep.q;
  args.reaches_beyond = problem.q() % 16 != 0;  // of a step
  args.stride_h = sweep.stride_h, args.stride_w = narrow(problem.stride_w);
  args.pad_top = sweep.pad_top, args.pad_left = sweep.pad_left;
  args.dilation_h = sweep.dilation_h, args.dilation_w = narrow(problem.dilation_w);
  args.output_n = problem.output.n, args.output_k = problem.output.c;
  args.output_p = problem.output.h, args.output_q = problem.output.w;
  args.input_n = problem.input.n, args.input_h = problem.input.h;
  args.input_w = problem.input.w, args.input_c = problem.input.c;
  args.filter_k = problem.filter.n, args.filter_c = problem.filter.c;
  args.filter_r = problem.filter.h, args.filter_s = problem.filter.w;
  return args;
}

}  // namespace haloconv::sm90::first_layers
