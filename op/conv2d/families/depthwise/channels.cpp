#include "conv2d/families/depthwise/channels.h"

#include <algorithm>

#include "conv2d/families/depthwise/at_once.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

constexpr int64_t kMostStageBytes = 40 * 1024;  // of all stages
// Rows of a tile share the source's rows: the more, the better, while the machine is full.
constexpr int64_t kRowsOfSmallTiles = 6;  // about
constexpr int64_t kWantedThreads = 200'000;

void set_stage(DepthwiseNhwc& d, bool wgrad) {
  d.grads_at = d.h.step * d.w.window * kSpanLanes;
  d.stage = d.grads_at + (wgrad ? d.w.threads * kSpanColumns * kSpanLanes : 0);
}

}  // namespace

std::optional<DepthwiseNhwc> make_depthwise_nhwc(const Conv2dProblem& problem,
                                                 Direction direction) {
  const bool wgrad = direction == Direction::kWgrad;
  if (problem.input.c != 1 || problem.output.c != 1) return std::nullopt;
  const auto axes = make_depthwise_axes(problem, wgrad ? Direction::kFprop : direction);
  if (!axes || axes->rows.divisor != 1) return std::nullopt;
  if (axes->h.taps != axes->w.taps || axes->h.step != axes->w.step) return std::nullopt;
  if (axes->h.upsampling != 1 || axes->w.upsampling != 1) return std::nullopt;
  DepthwiseNhwc d{};
  static_cast<DepthwiseAxes&>(d) = *axes;
  d.at_once = elements_at_once(problem);
  d.channel_tiles = FastDiv(ceil_div(d.channels.divisor, kSpanLanes));
  const int64_t stage_elements = kMostStageBytes / kSpanStages / size_of(problem.type);
  int64_t spans = kSpanThreads / kSpanLanes;
  do {
    set_tiles(d.w, kSpanColumns, spans--);
    set_stage(d, wgrad);
  } while (d.stage > stage_elements && spans > 0);

  // wgrad's blocks count tiles from a first to a last.
  constexpr int64_t kMostTiles = INT32_MAX / 2;
  if (problem.n * d.w.tiles > kMostTiles) return std::nullopt;
  const int64_t walks = problem.n * d.w.tiles * d.channel_tiles.divisor * d.threads();
  const int64_t tiles_h =
      std::clamp<int64_t>(kWantedThreads / walks, 1, ceil_div(d.h.outputs, kRowsOfSmallTiles));
  d.tile_rows = static_cast<int32_t>(ceil_div(d.h.outputs, tiles_h));
  set_tiles(d.h, d.tile_rows, 1);
  d.tiles_w = FastDiv(d.w.tiles);
  d.tiles_h = FastDiv(d.h.tiles);
  const int64_t tiles = problem.n * d.h.tiles * d.w.tiles;
  if (tiles > kMostTiles) return std::nullopt;
  d.tiles = static_cast<int32_t>(tiles);
  return d;
}

}  // namespace haloconv::depthwise
