#include "conv2d/families/depthwise/images.h"

#include "conv2d/families/depthwise/units.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

int32_t Images::resident(const Chip& chip) const {
  constexpr int64_t kReservedBytes = 1024;
  const int64_t fit =
      chip.shared_bytes_per_multiprocessor / (images_shared_bytes(w.step) + kReservedBytes);
  return static_cast<int32_t>(std::min<int64_t>(fit, images_resident(w.taps, w.step)));
}

double Images::cycles(const Chip& chip) const {
  // Of a block's step, by the stride. On an H200 it took 0.37 to 0.48 us of each block that shares
  // a multiprocessor, with a stride 0.81 to 0.92 (benchmarks/NOTES.md).
  constexpr double kCyclesOfStep[] = {720, 1480};
  const double columns = static_cast<double>(segments) * eights.divisor;
  const double steps = (tiles + columns * lead()) * channel_tiles.divisor;
  return steps * kCyclesOfStep[w.step - 1] / chip.multiprocessors;
}

std::optional<Images> make_images(const Conv2dProblem& problem, const Chip& chip) {
  if (chip.compute_capability < 80 || !lies_in_units(problem)) return std::nullopt;
  const auto axes = make_depthwise_axes(problem, Direction::kFprop);
  if (!axes || axes->rows.divisor != 1) return std::nullopt;
  if (axes->h.taps != axes->w.taps || axes->h.step != axes->w.step) return std::nullopt;
  Images d{};
  static_cast<DepthwiseAxes&>(d) = *axes;
  if (images_shared_bytes(d.w.step) > chip.shared_bytes_per_block) return std::nullopt;
  d.segments =
      static_cast<int32_t>(ceil_div(d.w.outputs, most_segment_columns(d.w.taps, d.w.step)));
  d.segment_columns = static_cast<int32_t>(ceil_div(d.w.outputs, d.segments));
  d.segments = static_cast<int32_t>(ceil_div(d.w.outputs, d.segment_columns));
  d.w.window = d.w.cells(d.segment_columns);
  d.pairs = FastDiv(ceil_div(d.h.outputs, 2));
  const int64_t eights = ceil_div(problem.n, kImagesAtOnce);
  constexpr int64_t kMostTiles = INT32_MAX / 2;
  if (eights > kMostTiles / (int64_t{d.pairs.divisor} * d.segments)) return std::nullopt;
  d.eights = FastDiv(eights);
  d.tiles = static_cast<int32_t>(eights * d.pairs.divisor * d.segments);
  d.channel_tiles = FastDiv(ceil_div(d.channels.divisor, kImageChannels));
  return d;
}

}  // namespace haloconv::depthwise
