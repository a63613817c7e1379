#include "conv2d/families/depthwise/rows_cells.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

constexpr int kBanks = 32;

// Of float32, whose threads read by fours. Where a warp's lanes have several planes, these begin at
// different banks.
DepthwiseCells spread_cells(const DepthwiseRectangle& of) {
  DepthwiseCells c{};
  const int64_t read = (of.threads - 1) * of.advance + round_up(of.cells, 4);
  c.pitch = static_cast<int32_t>(round_up(read, kDepthwiseLanes));
  const int64_t across = of.threads * kDepthwiseColumns;
  int64_t plane = of.rows * c.pitch;
  while (across < kBanks && plane % kBanks != across) plane += 4;
  c.plane_pitch = static_cast<int32_t>(plane);
  return c;
}

// Of 16 bits, whose threads read pairs from the one on that holds their first cell. A run's first
// word begins up to so many elements before it.
constexpr int64_t kBeforeRun = kDepthwiseWord - 1;

// Each row is a run.
DepthwiseCells cells_of_rows(const DepthwiseRectangle& of) {
  DepthwiseCells c{};
  c.pitch = static_cast<int32_t>(round_up(kBeforeRun + of.read() + 2, kDepthwiseWord));
  c.plane_pitch = static_cast<int32_t>(of.rows * c.pitch);
  c.words = FastDiv(ceil_div(kBeforeRun + of.columns, kDepthwiseWord));
  return c;
}

// A plane's rows are one run.
DepthwiseCells dense_cells(const DepthwiseRectangle& of) {
  DepthwiseCells c{};
  c.is_dense = true;
  c.pitch = static_cast<int32_t>(of.width);
  const int64_t run = kBeforeRun + std::min(of.rows, of.height) * of.width;
  c.plane_pitch = static_cast<int32_t>(round_up(run, kDepthwiseWord));
  const int64_t above = std::clamp<int64_t>(-of.top, 0, of.rows);
  const int64_t left = std::max<int64_t>(-of.left, 0);
  c.before = static_cast<int32_t>(round_up(above * of.width + left, kDepthwiseWord));
  const int64_t end = kBeforeRun + (of.rows - 1) * of.width + of.left + of.read() + 2;
  const int64_t after = std::max<int64_t>(end - c.plane_pitch, 0);
  c.after = static_cast<int32_t>(round_up(after, kDepthwiseWord));
  return c;
}

}  // namespace

int64_t elements_of(const DepthwiseCells& c, int64_t planes) {
  return c.before + planes * c.plane_pitch + c.after;
}

DepthwiseCells make_depthwise_cells(const DepthwiseRectangle& of, int64_t element_size) {
  if (element_size == 4) return spread_cells(of);
  const DepthwiseCells rows = cells_of_rows(of);
  if (of.tiles_w != 1 || of.row_step != of.width || of.width > of.columns) return rows;
  const DepthwiseCells dense = dense_cells(of);
  return elements_of(dense, 1) <= elements_of(rows, 1) ? dense : rows;
}

}  // namespace haloconv::depthwise
