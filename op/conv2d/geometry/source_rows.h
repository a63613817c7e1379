// What a problem without strides tells the kernels that go down rows of the source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"

namespace haloconv {

// Where destination pixel 0 meets tap 0, taps in the order of the source's pixels.
inline int32_t first_source(const Axis& axis, const AxisPhase& phase) {
  const int32_t back = axis.shift_step < 0 ? (phase.taps - 1) * axis.shift_step : 0;
  return phase.origin + phase.first_shift + back;
}

// Sets the strides and sizes of the three tensors, and how taps follow each other along the source.
template <class Arguments>
void set_source_rows(Arguments& a, const Gather& gather, const Phase& phase) {
  a.source_n = gather.source.n;
  a.source_c = gather.source.c;
  a.source_h = gather.source.h;
  a.destination_n = gather.destination.n;
  a.destination_c = gather.destination.c;
  a.destination_h = gather.destination.h;
  a.filter_row = gather.filter.n;
  a.filter_channel = gather.filter.c;
  a.filter_h = gather.filter.h;
  a.filter_w = gather.filter.w;
  a.source_height = gather.source_h;
  a.source_width = gather.source_w;
  a.height = phase.h.pixels;
  a.width = phase.w.pixels;
  a.channels = gather.channels;
  a.rows = gather.rows;
  a.taps_h = phase.h.taps;
  a.taps_w = phase.w.taps;
  a.reversed_h = gather.axis_h.shift_step < 0;
  a.reversed_w = gather.axis_w.shift_step < 0;
  a.first_row = first_source(gather.axis_h, phase.h);
  a.first_column = first_source(gather.axis_w, phase.w);
  a.row_step = std::abs(gather.axis_h.shift_step);
  a.column_step = std::abs(gather.axis_w.shift_step);
}

// Divides the destination into items: a band of columns, of which there are a.bands, and one of
// about `sweeps` runs of lines, which are rows numbered by their residue modulo row_step. False if
// there are too many to number.
template <class Arguments>
bool set_items(Arguments& a, int32_t sweeps) {
  constexpr int64_t kMost = INT32_MAX / 2;  // numbers run a little past the last
  a.residues = std::min(a.row_step, a.height);
  a.lines_of_residue = narrow(ceil_div(a.height, a.row_step));
  const int64_t lines = int64_t{a.images} * a.residues * a.lines_of_residue;
  a.sweep_lines = narrow(std::min<int64_t>(ceil_div(lines, sweeps), INT32_MAX));
  const int64_t needed = ceil_div(lines, a.sweep_lines);
  if (lines > kMost || needed * a.bands > kMost) return false;
  a.lines = narrow(lines);
  a.sweeps = narrow(needed);
  a.items = narrow(needed * a.bands);
  a.bands_div = FastDiv(a.bands);
  a.lines_of_residue_div = FastDiv(a.lines_of_residue);
  a.residues_div = FastDiv(a.residues);
  return true;
}

}  // namespace haloconv
