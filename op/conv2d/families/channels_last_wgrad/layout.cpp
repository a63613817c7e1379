#include "conv2d/families/channels_last_wgrad/layout.h"

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

constexpr int64_t kElementBytes = 2;
constexpr int64_t kBoxAlignment = 1024;  // where the swizzle's pattern begins again

int32_t to_int32(int64_t value) { return static_cast<int32_t>(value); }

// A tile's columns, from the innermost axis outward.
class ColumnCount {
 public:
  explicit ColumnCount(int32_t width) : channels_(width) {}

  // The axis' step before it has `count` members.
  ColumnAxis add(Along along, int32_t count) {
    ColumnAxis axis;
    int32_t& extent = along == Along::kChannels ? channels_ : along == Along::kTaps ? taps_ : rows_;
    int32_t& step = along == Along::kChannels ? axis.channels
                    : along == Along::kTaps   ? axis.taps
                                              : axis.rows;
    step = extent;
    extent *= count;
    return axis;
  }

  int32_t channels() const { return channels_; }
  int32_t taps() const { return taps_; }
  int32_t rows() const { return rows_; }

 private:
  int32_t channels_, taps_ = 1, rows_ = 1;
};

}  // namespace

bool has_output_rows(const Conv2dProblem& problem) {
  return problem.output.c != 1 && problem.output.w == 1;
}

Pixels::Pixels(const Conv2dProblem& problem, bool flat)
    : q(flat ? problem.n * problem.p() * problem.q() : problem.q()),
      p(flat ? 1 : problem.p()),
      n(flat ? 1 : problem.n) {}

Layout::Layout(const Conv2dProblem& problem, const Tile& of_tile, const Columns& of_columns,
               const Patch& of_patch, bool is_flat)
    : tile(of_tile),
      columns(of_columns),
      patch(of_patch),
      flat(is_flat),
      output_rows(has_output_rows(problem)),
      steps_s(problem.s, problem.stride_w, problem.dilation_w),
      steps_r(problem.r, problem.stride_h, problem.dilation_h) {
  ColumnCount count(tile.width);
  axes.chunk = count.add(columns.chunk, tile.chunks);
  axes.instruction = count.add(columns.instruction, tile.instructions);
  axes.warpgroup = count.add(columns.warpgroup, tile.column_warpgroups);
  tile_c = count.channels();
  tile_s = count.taps();
  tile_r = count.rows();

  // A tile's taps read the same box, which has a halo for them.
  box_w = patch.columns + (tile_s - 1) * steps_s.shift;
  box_h = patch.rows + (tile_r - 1) * steps_r.shift;
  const int64_t pixel_bytes = tile.width * kElementBytes;
  const int64_t column_bytes = pixel_bytes * (patch.images_innermost ? patch.images : 1);
  grad_output_bytes = patch.columns * patch.rows * patch.images * 64 * to_int32(kElementBytes);
  const int64_t box_bytes = int64_t{box_w} * box_h * patch.images * pixel_bytes;
  input_bytes = to_int32(round_up(box_bytes, kBoxAlignment));
  input_boxes = tile_c / tile.width;
  copied_bytes = to_int32(tile.row_warpgroups * grad_output_bytes + input_boxes * box_bytes);
  row_bytes = to_int32(box_w * pixel_bytes);
  const bool have_neighbours = flat || output_rows || patch.images_innermost;
  group_bytes = have_neighbours ? to_int32(8 * pixel_bytes) : row_bytes;
  for (ColumnAxis* axis : {&axes.warpgroup, &axes.instruction, &axes.chunk}) {
    axis->bytes = to_int32(
        axis->channels / tile.width * int64_t{input_bytes} +
        (axis->taps * steps_s.shift + axis->rows * steps_r.shift * int64_t{box_w}) * column_bytes);
    axis->taps *= steps_s.step;
    axis->rows *= steps_r.step;
  }

  tiles_of_k = ceil_div(problem.k, tile.rows());
  tiles_of_c = ceil_div(problem.c, tile_c);
  tiles_of_s = steps_s.tiles(tile_s);
  tiles_of_r = steps_r.tiles(tile_r);
  const Pixels pixels(problem, flat);
  strips = ceil_div(pixels.q, patch.columns);
  bands = ceil_div(pixels.p, patch.rows);
  patches = strips * bands * ceil_div(pixels.n, patch.images);

  const int64_t last_columns = pixels.q - (strips - 1) * patch.columns;
  const int64_t last_rows = pixels.p - (bands - 1) * patch.rows;
  if (output_rows) {
    groups = {patch.columns / 8, to_int32(ceil_div(last_columns, 8))};
  } else if (patch.images_innermost) {
    groups = {patch.columns * patch.images / 8, to_int32(last_columns * patch.images / 8)};
  } else {
    // Where a patch has several images, it has all of their rows.
    groups.whole = 2 * patch.k_steps();
    groups.last = flat || bands * patch.rows == pixels.p ? groups.whole : to_int32(last_rows);
  }
  if (!flat && !patch.images_innermost && pixels.q % 8 != 0) {
    row_ends.first = to_int32(last_columns);
    row_ends.end = to_int32(round_up(last_columns, 8)) + (tile_s - 1) * steps_s.shift;
    row_ends.box_w = box_w;
    row_ends.box_rows = box_h * patch.images;
    row_ends.tap_rows = tile_r;
    row_ends.tap_shift = steps_r.shift;
    row_ends.has_one_column = tile_s == 1;
  }
  // All chunks of an instruction take their zeros from these, as far apart as their pixels.
  zero_bytes =
      groups.last % 2 == 0
          ? 0
          : to_int32(round_up((tile.chunks - 1) * axes.chunk.bytes + 8 * pixel_bytes, 128));
}

}  // namespace haloconv::sm90::channels_last_wgrad
