#include "conv2d/families/depthwise/lines.h"

#include <algorithm>

#include "conv2d/families/depthwise/axes.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

constexpr int64_t kMostVectors = INT32_MAX / 4;  // the kernels count them in 32 bits

int32_t tap_block(int64_t taps, int32_t most) { return taps <= 4 ? 4 : taps <= 8 ? 8 : most; }

bool is_line(const Conv2dProblem& p) {
  return p.h == 1 && p.r == 1 && p.pad_top == 0 && p.pad_bottom == 0 && p.stride_w == 1 &&
         p.input.w == 1 && p.output.w == 1;
}

// fprop's or dgrad's.
std::optional<LineAxis> make_axis(const Conv2dProblem& p, Direction direction, int32_t most) {
  if (p.type == DataType::kFloat64 || !is_line(p) || p.s > kMostLineTaps) return std::nullopt;
  const Gather g = make_gather(p, direction);
  const int64_t channels = int64_t{g.groups} * g.rows;
  if (g.channels != 1 || channels > INT32_MAX) return std::nullopt;
  const bool fprop = direction == Direction::kFprop;
  const int64_t dilation = p.s == 1 ? 1 : p.dilation_w, reach = dilation * (p.s - 1);
  LineAxis a{};
  a.outputs = static_cast<int32_t>(fprop ? p.q() : p.w);
  a.source_size = static_cast<int32_t>(fprop ? p.w : p.q());
  // dgrad goes from the last tap to the first.
  a.origin = static_cast<int32_t>(fprop ? -p.pad_left : p.pad_left - reach);
  a.taps = static_cast<int32_t>(p.s);
  a.dilation = static_cast<int32_t>(dilation);
  a.tap_block = dilation == 1 ? tap_block(p.s, most) : 1;
  a.channels = FastDiv(channels);
  a.rows = FastDiv(g.rows);
  return a;
}

}  // namespace

int32_t vectors_of_line(int64_t elements, int64_t element_size, bool is_aligned) {
  const int64_t vector = line_elements(element_size);
  return static_cast<int32_t>(ceil_div(elements + (is_aligned ? 0 : vector - 1), vector));
}

bool lines_are_aligned(const Strides& strides, int64_t element_size) {
  const int64_t vector = line_elements(element_size);
  return strides.n % vector == 0 && strides.c % vector == 0;
}

std::optional<Lines> make_lines(const Conv2dProblem& p, Direction direction) {
  if (direction == Direction::kWgrad) return std::nullopt;
  const auto axis = make_axis(p, direction, kMostTapsAtOnce);
  if (!axis) return std::nullopt;
  const bool fprop = direction == Direction::kFprop;
  Lines d{};
  static_cast<LineAxis&>(d) = *axis;
  d.filter_first = fprop ? 0 : (p.s - 1) * p.filter.w;
  d.filter_step = fprop ? p.filter.w : -p.filter.w;
  const int64_t lines = p.n * d.channels.divisor;
  if (lines > INT32_MAX / 2) return std::nullopt;
  d.lines = static_cast<int32_t>(lines);

  const int64_t size = size_of(p.type);
  const bool is_aligned = lines_are_aligned(fprop ? p.output : p.input, size);
  const int64_t vectors = vectors_of_line(d.outputs, size, is_aligned);
  const int64_t threads = ceil_div(vectors, line_vectors(d.tap_block, size));
  const int64_t tiles = ceil_div(threads, kLineThreads);
  const int64_t line_threads = ceil_div(threads, tiles);
  d.line_tiles = FastDiv(tiles);
  d.line_threads = FastDiv(line_threads);
  d.block_lines = static_cast<int32_t>(std::min<int64_t>(kLineThreads / line_threads, lines));
  d.threads = static_cast<int32_t>(round_up(line_threads * d.block_lines, kWarp));
  d.blocks = ceil_div(lines, d.block_lines) * tiles;
  return d.blocks > INT32_MAX ? std::nullopt : std::optional(d);
}

std::optional<LinesWgrad> make_lines_wgrad(const Conv2dProblem& p) {
  const auto axis = make_axis(p, Direction::kFprop, kMostWgradTapsAtOnce);
  if (!axis || axis->dilation != 1) return std::nullopt;
  LinesWgrad d{};
  static_cast<LineAxis&>(d) = *axis;
  const int64_t vectors = p.n * vectors_of_line(d.outputs, size_of(p.type), false);
  if (vectors > kMostVectors) return std::nullopt;
  d.images = static_cast<int32_t>(p.n);
  d.tap_blocks = FastDiv(ceil_div(d.taps, d.tap_block));
  const int32_t at_once = line_wgrad_vectors(d.tap_block, size_of(p.type));
  const int64_t threads = round_up(ceil_div(vectors, at_once), kWarp);
  d.threads = static_cast<int32_t>(std::min<int64_t>(threads, kLineThreads));
  d.tile_vectors = d.threads * at_once;
  d.tiles = static_cast<int32_t>(ceil_div(vectors, d.tile_vectors));
  return d;
}

}  // namespace haloconv::depthwise
