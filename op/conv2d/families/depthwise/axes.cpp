#include "conv2d/families/depthwise/axes.h"

#include <algorithm>
#include <string>

#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

constexpr int kMostStep = 4;
constexpr int kMostUpsampling = 2;
constexpr int kMostTaps = 16;

// One axis of a problem. size: the input's; filter: elements from a tap to the next.
struct AxisSizes {
  int64_t size, outputs, taps, stride, dilation, pad, filter;
};

std::optional<DepthwiseAxis> make_axis(const AxisSizes& of, Direction direction) {
  if (of.taps > kMostTaps || (of.taps > 1 && of.dilation != 1)) return std::nullopt;
  const bool fprop = direction == Direction::kFprop;
  if (of.stride > (fprop ? kMostStep : kMostUpsampling)) return std::nullopt;
  const auto stride = static_cast<int32_t>(of.stride), taps = static_cast<int32_t>(of.taps);
  DepthwiseAxis a{};
  a.taps = taps;
  a.outputs = static_cast<int32_t>(fprop ? of.outputs : of.size);
  a.source_size = static_cast<int32_t>(fprop ? of.size : of.outputs);
  a.step = fprop ? stride : 1;
  a.upsampling = fprop ? 1 : stride;
  // dgrad goes from the last tap to the first.
  const auto origin = static_cast<int32_t>(fprop ? -of.pad : of.pad - (taps - 1));
  a.tap_phase = (origin % a.upsampling + a.upsampling) % a.upsampling;
  a.origin = (origin - a.tap_phase) / a.upsampling;
  a.filter_step = fprop ? of.filter : -of.filter;
  return a;
}

bool has_width(int32_t taps) { return (taps >= 3 && taps <= 5) || taps == 7; }

}  // namespace

std::optional<DepthwiseAxes> make_depthwise_axes(const Conv2dProblem& problem,
                                                 Direction direction) {
  if (problem.type == DataType::kFloat64) return std::nullopt;
  const Gather g = make_gather(problem, direction);
  if (g.channels != 1) return std::nullopt;
  const auto h = make_axis({problem.h, problem.p(), problem.r, problem.stride_h, problem.dilation_h,
                            problem.pad_top, problem.filter.h},
                           direction);
  const auto w = make_axis({problem.w, problem.q(), problem.s, problem.stride_w, problem.dilation_w,
                            problem.pad_left, problem.filter.w},
                           direction);
  if (!h || !w || w->step > 2 || !has_width(w->taps)) return std::nullopt;
  const int64_t channels = int64_t{g.groups} * g.rows;
  if (channels > INT32_MAX) return std::nullopt;
  DepthwiseAxes d{};
  d.h = *h;
  d.w = *w;
  const auto first = [](const DepthwiseAxis& a) {
    return a.filter_step < 0 ? -(a.taps - 1) * a.filter_step : 0;
  };
  d.filter_first = first(d.h) + first(d.w);
  d.channels = FastDiv(channels);
  d.rows = FastDiv(g.rows);
  return d;
}

std::string depthwise_declines(const Conv2dProblem& p, Direction direction) {
  const bool dgrad = direction == Direction::kDgrad;
  if (p.type == DataType::kFloat64) return "sums would be in float64";
  if ((dgrad ? p.group_k() : p.group_c()) != 1) return "a group sums over more than one channel";
  if (!has_width(static_cast<int32_t>(std::min<int64_t>(p.s, INT32_MAX)))) {
    return p.h == 1 && p.r == 1 ? "along one row there are more than 64 taps, a stride, a weight "
                                  "gradient's dilation "
                                  "or elements that are not contiguous"
                                : "the filter is not 3, 4, 5 or 7 wide";
  }
  if (p.r > kMostTaps) return "the filter is higher than 16";
  if ((p.r > 1 && p.dilation_h != 1) || p.dilation_w != 1) return "there is dilation";
  if (p.stride_w > 2 || p.stride_h > (dgrad ? kMostUpsampling : kMostStep)) {
    return "a stride is too large for its windows";
  }
  return "neither rows nor channels are contiguous, or these have no kernel for the filter";
}

void set_tiles(DepthwiseAxis& a, int32_t outputs, int64_t most_threads) {
  const int64_t threads = ceil_div(a.outputs, outputs);
  a.tiles = static_cast<int32_t>(ceil_div(threads, std::min(threads, most_threads)));
  a.threads = static_cast<int32_t>(ceil_div(threads, a.tiles));
  a.window = a.cells(a.threads * outputs);
}

}  // namespace haloconv::depthwise
