#include "conv2d/families/halo/flat_lines.h"

#include <limits>

namespace haloconv::halo {

namespace {

template <class Shape>
bool may_be_flat(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
                 const AxisPart& column) {
  const Strides &from = problem.gather.source, &to = problem.gather.destination;
  const WindowAxis &h = row.window.axis, &w = column.window.axis;
  if (tile.width != Shape::kWidth || problem.precise ||
      problem.folded_rows_of(row, column).count > 1) {
    return false;
  }
  if (h.taps != 3 || w.taps != 3 || h.source_step != 1 || w.source_step != 1 ||
      problem.chunks != Shape::kChunks || problem.gather.groups != 1 ||
      problem.gather.rows % kCopiedChannels != 0) {
    return false;
  }
  // Every window lies in the source, and rows follow each other.
  if (h.origin != 0 || w.origin != 0 || h.source_size != h.outputs + row.window.halo ||
      w.source_size != w.outputs + kFlatGap || column.window.halo != kFlatGap ||
      from.h != w.source_size || row.step != w.outputs || column.step != 1) {
    return false;
  }
  const int64_t positions = int64_t{h.outputs} * from.h;
  if (w.outputs < Shape::kPixels || w.outputs % 2 != 0 || to.c % 2 != 0 || to.n % 2 != 0 ||
      positions > std::numeric_limits<int32_t>::max()) {
    return false;
  }
  return Shape::place_shift(to.c) >= 0 && (problem.images == 1 || to.n % Shape::kSector == 0) &&
         to.c >= int64_t{h.outputs} * w.outputs;
}

}  // namespace

std::optional<FlatParts> flat_parts(const FoldedProblem& problem, const Tile& tile,
                                    const AxisPart& row, const AxisPart& column) {
  const bool may = problem.element_bytes == 4
                       ? may_be_flat<FlatShape<4>>(problem, tile, row, column)
                       : may_be_flat<FlatShape<2>>(problem, tile, row, column);
  if (!may) return std::nullopt;
  FlatParts flat{row, column};
  const int32_t rows = row.window.axis.outputs;
  for (WindowShape* window : {&flat.row.window, &flat.row.even_window}) {
    window->axis.outputs = 1;
    window->axis.source_size = 1 + row.window.halo;
  }
  for (WindowShape* window : {&flat.column.window, &flat.column.even_window}) {
    const int32_t width = window->axis.source_size;
    window->axis.outputs += (rows - 1) * width;
    window->axis.source_size = rows * width;
  }
  return flat;
}

}  // namespace haloconv::halo
