#include "conv2d/families/halo/copied_tiling.h"

#include "conv2d/families/halo/copied_lines.h"
#include "conv2d/families/halo/flat_lines.h"

namespace haloconv::halo {

namespace {

constexpr int64_t kMapAlignment = 16;  // bytes, of a tensor map's strides

// All strides are those of a tensor map, and all channels one group's.
bool may_copy_rows(const FoldedProblem& problem, const Tile& tile, const AxisPart& row) {
  const Strides& to = problem.gather.destination;
  for (const int64_t stride : {int64_t{row.step}, to.c, to.n, to.h}) {
    if (stride <= 0 || stride * problem.element_bytes % kMapAlignment != 0) return false;
  }
  // Of float32, pieces of 64 pixels would be longer than a swizzle.
  return problem.gather.groups == 1 && (tile.columns < 64 || problem.element_bytes == 2);
}

}  // namespace

bool may_copy(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
              const AxisPart& column) {
  if (problem.precise || column.step != 1 || problem.folded_rows_of(row, column).count > 1) {
    return false;
  }
  return is_line(tile) ? may_copy_lines(problem, tile, row, column)
                       : may_copy_rows(problem, tile, row);
}

int64_t copied_staging_bytes(const Tile& tile, int64_t element_bytes) {
  if (is_flat(tile)) {
    return element_bytes == 4 ? FlatShape<4>::kBlockBytes : FlatShape<2>::kBlockBytes;
  }
  if (is_line(tile)) return kMathWarps * kStagedWarpBytes;
  return kMathWarps * kCopiedChannels * int64_t{tile.instructions} * tile.width * element_bytes;
}

}  // namespace haloconv::halo
