#include "conv2d/families/halo/folded_problem.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

namespace {

// Source pixels of as many residues are what the taps meet.
int32_t residues_of(const Axis& axis, const AxisPhase& phase) {
  return std::min(phase.taps, axis.source_step / std::gcd(axis.source_step, axis.shift_step));
}

// Where it is not there yet; they are sorted, and kMaxResidues at most.
void insert_residue(WindowAxis& w, int32_t residue) {
  int32_t at = 0;
  while (at < w.residues && w.residue[at] < residue) ++at;
  if (at < w.residues && w.residue[at] == residue) return;
  for (int32_t i = w.residues++; i > at; --i) w.residue[i] = w.residue[i - 1];
  w.residue[at] = residue;
}

// `even`: the window begins at an even pixel and has an even number of them, of one residue or two.
// The taps meet kMaxResidues residues at most.
WindowShape make_window(const Axis& axis, const AxisPhase& phase, int32_t source_size, bool even) {
  WindowShape shape{};
  WindowAxis& w = shape.axis;
  w.outputs = phase.pixels;
  w.source_size = source_size;
  w.source_step = axis.source_step;
  w.taps = phase.taps;
  w.shift_step = axis.shift_step;
  const int32_t span = (phase.taps - 1) * axis.shift_step;
  const int32_t least = std::min(span, 0);
  w.origin = phase.origin + phase.first_shift + least;
  w.first_shift = -least;
  const int32_t before = even ? w.origin & 1 : 0;
  w.origin -= before;
  w.first_shift += before;
  for (int32_t tap = 0; tap < std::min(w.taps, axis.source_step); ++tap) {
    const int32_t residue = (w.first_shift + tap * w.shift_step) % w.source_step;
    insert_residue(w, residue);
  }
  shape.halo = (std::abs(span) + before) / w.source_step;
  shape.even = even;
  return shape;
}

bool same_shape(const WindowShape& a, const WindowShape& b) {
  return a.axis.outputs == b.axis.outputs && a.axis.taps == b.axis.taps &&
         a.axis.residues == b.axis.residues && a.halo == b.halo;
}

// Numbers the parts' shapes and returns how many there are. Far windows are looked at one by one.
int32_t set_shapes(std::vector<AxisPart>& parts, bool is_far) {
  int32_t shapes = 0;
  for (AxisPart& part : parts) {
    const auto same = std::find_if(parts.data(), &part, [&](const AxisPart& other) {
      return !is_far && part.phase.pixels == other.phase.pixels &&
             part.reads_pairs == other.reads_pairs && same_shape(part.window, other.window) &&
             (!part.reads_pairs || same_shape(part.even_window, other.even_window));
    });
    part.shape = same == &part ? shapes++ : same->shape;
  }
  return shapes;
}

// Phase by phase, rows outermost; a fold has parts along one axis alone.
std::vector<LaunchPair> make_launch_pairs(const std::vector<AxisPart>& rows,
                                          const std::vector<AxisPart>& columns) {
  const auto end_of_phase = [](const std::vector<AxisPart>& parts, size_t first) {
    size_t end = first;
    while (end < parts.size() && parts[end].of_phase == parts[first].of_phase) ++end;
    return end;
  };
  std::vector<LaunchPair> launches;
  launches.reserve(rows.size() * columns.size());
  for (size_t row = 0, next_row = 0; row < rows.size(); row = next_row) {
    next_row = end_of_phase(rows, row);
    for (size_t column = 0, next_column = 0; column < columns.size(); column = next_column) {
      next_column = end_of_phase(columns, column);
      for (size_t i = row; i < next_row; ++i) {
        for (size_t j = column; j < next_column; ++j) {
          launches.push_back(
              {static_cast<int32_t>(i), static_cast<int32_t>(j), i == row && j == column});
        }
      }
    }
  }
  return launches;
}

// From the first pixel of any window to the source's last, where a window may begin before it.
double reach_of(const std::vector<AxisPart>& parts) {
  int32_t before = 0;
  for (const AxisPart& part : parts) before = std::min(before, part.even_window.axis.origin);
  return parts.front().window.axis.source_size - 1.0 - before;
}

}  // namespace

WindowAxis WindowShape::with_tile(int32_t tile) const {
  WindowAxis w = axis;
  w.tile = tile;
  w.tiles = ceil_div_32(w.outputs, tile);
  w.cells = cells(tile);
  w.last = (w.cells - 1) * w.source_step + w.residue[w.residues - 1];
  return w;
}

FoldedRows FoldedProblem::folded_rows_of(const AxisPart& row, const AxisPart& column) const {
  FoldedRows of{};
  of.step = fold.parts * (fold_columns ? gather.destination.w * gather.axis_w.pixel_step
                                       : gather.destination.h * gather.axis_h.pixel_step);
  of.count = fold.count;
  of.columns = fold_columns;
  of.pixels = (fold_columns ? column : row).phase.pixels;
  if (fold.count > 1) {
    of.shift = std::countr_zero(static_cast<uint64_t>(folded_channels(gather.rows)));
  }
  return of;
}

std::vector<FoldChoice> folds_of(const Gather& gather, const TappedPhases& phases) {
  constexpr int64_t kMostLaunches = 16;  // more would each be too short
  std::vector<FoldChoice> folds = {{}};
  // The first phase has the most pixels, and so has its first part.
  const AxisPhase &h = phases.rows.front(), &w = phases.columns.front();
  const int64_t rows = folded_channels(gather.rows);
  for (int count = 2; count * rows <= kRowsOfGroup; count *= 2) {
    const Fold fold = make_fold(gather.axis_h, count);
    const auto launches = static_cast<int64_t>(phases.count());
    const bool fills = ceil_div(h.pixels, fold.parts) >= count;
    if (fills && fold.parts * launches <= kMostLaunches) folds.push_back({count, false});
    // Of columns where more taps share the zeros, but not in parts: each would write every second
    // pixel of a row or fewer.
    if (w.taps > h.taps && make_fold(gather.axis_w, count).parts == 1 && w.pixels >= count &&
        launches <= kMostLaunches) {
      folds.push_back({count, true});
    }
  }
  return folds;
}

std::optional<FoldedProblem> make_folded(const Conv2dProblem& problem, Direction direction,
                                         bool precise, const TappedPhases& phases,
                                         const FoldChoice& choice) {
  FoldedProblem f{};
  f.gather = make_gather(problem, direction);
  const Gather& g = f.gather;
  f.element_bytes = narrow(size_of(problem.type));
  f.precise = precise;
  f.images = problem.n;
  f.fold_columns = choice.columns;
  f.fold = make_fold(choice.columns ? g.axis_w : g.axis_h, choice.count);
  f.folded_rows = choice.count > 1 ? choice.count * folded_channels(g.rows) : g.rows;
  f.chunk = chunk_of(problem.type);
  f.chunks = narrow(ceil_div(g.channels, f.chunk));

  const bool is_even =
      g.source_w % 2 == 0 && g.source.h % 2 == 0 && g.source.c % 2 == 0 && g.source.n % 2 == 0;
  bool few_residues = true;
  const auto add = [&](const Axis& unfolded, const std::vector<AxisPhase>& of_axis, bool has_fold,
                       int32_t source_size, int64_t element_step, bool is_row,
                       std::vector<AxisPart>& parts) {
    const Fold fold = has_fold ? f.fold : Fold{};
    const Axis axis = folded(fold, unfolded);
    for (size_t i = 0; i < of_axis.size(); ++i) {
      for (const AxisPhase& part : parts_of(fold, unfolded, of_axis[i])) {
        const AxisPhase phase = folded(fold, unfolded, part);
        const int32_t residues = residues_of(axis, phase);
        few_residues = few_residues && residues <= kMaxResidues;
        if (!few_residues) return;
        const bool neighbours = axis.source_step == 1 || (axis.source_step == 2 && residues == 2);
        const WindowShape window = make_window(axis, phase, source_size, false);
        // A single output has no neighbour, whose distance might pass 32 bits.
        const int32_t step = phase.pixels > 1 ? narrow(element_step * axis.pixel_step)
                             : is_row         ? 0
                                              : 1;
        parts.push_back(
            {.phase = part,
             .step = step,
             .of_phase = static_cast<int32_t>(i),
             .window = window,
             .even_window = is_row ? window : make_window(axis, phase, source_size, true),
             .reads_pairs = !is_row && is_even && neighbours,
             .shape = 0});
      }
    }
  };
  add(g.axis_h, phases.rows, !choice.columns, g.source_h, g.destination.h, true, f.rows);
  add(g.axis_w, phases.columns, choice.columns, g.source_w, g.destination.w, false, f.columns);
  if (!few_residues) return std::nullopt;
  f.launches = make_launch_pairs(f.rows, f.columns);
  f.pairs_are_apart = f.columns.front().window.axis.source_step == 2;
  const double reach = static_cast<double>(f.images - 1) * static_cast<double>(g.source.n) +
                       reach_of(f.rows) * static_cast<double>(g.source.h) + reach_of(f.columns);
  f.is_far = reach > INT32_MAX;
  f.row_shapes = set_shapes(f.rows, f.is_far);
  f.column_shapes = set_shapes(f.columns, f.is_far);
  return f;
}

}  // namespace haloconv::halo
