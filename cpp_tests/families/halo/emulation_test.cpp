// The Hopper kernels' index arithmetic, on the host: launches are walked as the kernels walk them
// (which source pixel a window's cell holds, which cells and weights an instruction multiplies,
// where a sum goes), and what comes out is held against the definition. Neither the order in which
// shared memory holds results nor the timing of anything is followed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "chip/known_chips.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/pack_arguments.h"
#include "conv2d/families/halo/window.h"
#include "conv2d/families/halo/zero_arguments.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using halo::Arguments;
using halo::kMathGroups;
using halo::kRowsOfGroup;
using halo::Launch;
using halo::PackArguments;
using halo::PackPhase;
using halo::Plan;
using halo::Share;

// A problem's small integers, and what each direction makes of them.
struct Numbers {
  Values input, filter, bias, grad_output, output, grad_input;

  explicit Numbers(const Conv2dProblem& p)
      : input(small_integers(input_count(p), 1)),
        filter(small_integers(filter_count(p), 2)),
        bias(small_integers(p.k, 3)),
        grad_output(small_integers(output_count(p), 4)),
        output(reference_fprop(p, input, filter, bias)),
        grad_input(reference_dgrad(p, grad_output, filter)) {}
};

// A block's tile, as tile_order.cuh numbers them.
struct TilePosition {
  int32_t group, row_tile, image, h, w;
};

// One launch. In 16-bit integers, of which compilers make quick loops.
class Emulation {
 public:
  Emulation(const Launch& launch, const PackArguments& pack, const PackPhase& phase,
            const Values& source, const Values& filter, const Values& bias, Values& destination)
      : launch_(launch),
        args_(launch.arguments),
        source_(source),
        bias_(bias),
        destination_(destination),
        channels_(args_.chunks * args_.chunk),
        window_(size_t(args_.window_cells) * channels_),
        met_(size_t(args_.taps) * channels_) {
    const int32_t rows = pack.row_groups * kRowsOfGroup;
    weights_.resize(size_t(args_.groups) * rows * args_.taps * channels_);
    size_t i = 0;
    for (int32_t group = 0; group < args_.groups; ++group) {
      for (int32_t row = 0; row < rows; ++row) {
        for (int32_t tap = 0; tap < args_.taps; ++tap) {
          for (int32_t c = 0; c < channels_; ++c, ++i) {
            const int64_t at = pack.offset(phase, row, c, tap);
            weights_[i] = at < 0 ? 0 : static_cast<int16_t>(filter.at(group * pack.group + at));
          }
          const halo::FoldedRows::Row of = args_.folded.at(row);
          if (of.channel >= args_.rows || of.fold >= args_.folded.count) continue;
          const bool is_own = pack.offset(phase, row, 0, tap) >= 0;
          EXPECT_EQ(has_own_tap(row, tap), is_own);
        }
      }
    }
    rows_of_group_ = rows;
    for (int32_t tap = 0; tap < args_.taps; ++tap) {
      int32_t residue_h, residue_w;
      const int32_t row = args_.h.tap_cell(tap / args_.w.taps, residue_h);
      const int32_t column = args_.w.tap_cell(tap % args_.w.taps, residue_w);
      tap_cells_.push_back((residue_h * args_.h.cells + row) * args_.pitch +
                           residue_w * args_.w.cells + column);
    }
  }

  void run(const halo::Tile& tile) {
    is_flat_ = halo::is_flat(tile);
    is_whole_ = halo::copies_lines(tile);
    const int32_t columns = is_flat_ ? tile.instructions * tile.width : args_.w.tile;
    TilePosition at{};
    for (at.group = 0; at.group < args_.groups; ++at.group) {
      for (int32_t image = 0; image < args_.image_tiles; ++image) {
        at.image = image * args_.tile_images;
        for (int32_t h = 0; h < args_.h.tiles; ++h) {
          at.h = h * args_.h.tile;
          for (int32_t w = 0; w < args_.w.tiles; ++w) {
            at.w = w * args_.w.tile;
            if (is_whole_) at.w = std::min(at.w, args_.w.outputs - columns);
            bring_window(at);
            for (at.row_tile = 0; at.row_tile < args_.row_tiles; ++at.row_tile) {
              for (int32_t group = 0; group < kMathGroups; ++group) compute(at, group, tile);
            }
          }
        }
      }
    }
  }

 private:
  // As producer.cuh, with the largest vectors that the window allows.
  void bring_window(const TilePosition& tile) {
    std::fill(window_.begin(), window_.end(), kNothing);
    for (int32_t i = 0; i < args_.entries; ++i) {
      halo::WindowEntry entry = window_entry(args_, i);
      const bool inside = bring_pixel(tile, entry);
      if (!args_.even) continue;
      if (inside) {
        ASSERT_EQ(first_of(tile, entry) % 2, 0) << "a pair is not aligned";
      }
      ++entry.source, ++entry.column, entry.cell += args_.pair_cells;
      ASSERT_EQ(bring_pixel(tile, entry), inside) << "half of a pair is in the source";
    }
  }

  // Where the first channel of an entry's pixel is.
  int64_t first_of(const TilePosition& tile, const halo::WindowEntry& entry) const {
    return tile.image * args_.source_n + int64_t{tile.group} * args_.channels * args_.source_c +
           (tile.h * args_.h.source_step + args_.h.origin) * int64_t{args_.source_h} +
           tile.w * args_.w.source_step + args_.w.origin + entry.source;
  }

  // Returns whether the pixel is in the source.
  bool bring_pixel(const TilePosition& tile, const halo::WindowEntry& entry) {
    const halo::WindowAxis &h = args_.h, &w = args_.w;
    const int32_t y = tile.h * h.source_step + h.origin + entry.row;
    const int32_t x = tile.w * w.source_step + w.origin + entry.column;
    const bool inside = y >= 0 && y < h.source_size && x >= 0 && x < w.source_size &&
                        tile.image + entry.image < args_.images;
    EXPECT_LE(entry.row, h.last);
    EXPECT_LE(entry.column, w.last);
    for (int32_t c = 0; c < channels_; ++c) {
      window_.at(size_t(entry.cell) * channels_ + c) =
          inside && c < args_.channels
              ? static_cast<int16_t>(source_.at(first_of(tile, entry) + c * args_.source_c))
              : 0;
    }
    return inside;
  }

  // As mainloop.cuh and epilogue.cuh, for a math group.
  void compute(const TilePosition& tile, int32_t group, const halo::Tile& shape) {
    const auto share = [&](Share axis) { return args_.share == axis ? group : 0; };
    const int32_t rows = args_.patches ? shape.width / 8 : 1;
    const int32_t columns = args_.patches ? 8 : shape.width;
    const int32_t across = is_flat_ ? shape.instructions : args_.group_columns / columns;
    const int32_t in_image = args_.group_rows / rows * across;
    for (int32_t i = 0; i < shape.instructions; ++i) {
      for (int32_t n = 0; n < shape.width; ++n) {
        const int32_t image = i / in_image + share(Share::kImages) * args_.group_images;
        const int32_t row = i % in_image / across * rows + share(Share::kRows) * args_.group_rows;
        const int32_t column = i % across * columns + share(Share::kColumns) * args_.group_columns;
        const int32_t cell = image * args_.image_cells + row * args_.pitch + column +
                             (args_.patches ? n / 8 * args_.pitch + n % 8 : n);
        const int32_t pixel = args_.patches ? (i / across * rows + n / 8) * args_.group_columns +
                                                  i % across * 8 + n % 8
                                            : i * shape.width + n;
        write_rows(tile, group, cell, pixel);
      }
    }
  }

  // The 64 sums of one pixel of a math group's tile.
  void write_rows(const TilePosition& tile, int32_t group, int32_t cell, int32_t pixel) {
    if (is_flat_) return write_flat_rows(tile, group, cell, pixel);
    const auto first = [&](Share share, int32_t size) {
      return args_.share == share ? group * size : 0;
    };
    const int32_t line = args_.columns_div.quotient(pixel);
    const int32_t image = args_.rows_div.quotient(line);
    const int32_t n = tile.image + image + first(Share::kImages, args_.group_images);
    const int32_t p =
        tile.h + line - image * args_.group_rows + first(Share::kRows, args_.group_rows);
    const int32_t q =
        tile.w + pixel - line * args_.group_columns + first(Share::kColumns, args_.group_columns);
    if (n >= args_.images || p >= args_.h.outputs || q < 0 || q >= args_.w.outputs) return;
    meet(cell);
    const int32_t groups_of_tile = args_.share == Share::kChannels ? kMathGroups : 1;
    const int32_t first_row =
        (tile.row_tile * groups_of_tile + first(Share::kChannels, 1)) * kRowsOfGroup;
    for (int32_t row = first_row; row < first_row + kRowsOfGroup; ++row) {
      const halo::FoldedRows::Row at = args_.folded.at(row);
      const int32_t channel = tile.group * args_.rows + at.channel;
      const int64_t row_at = launch_.destination_at + n * args_.destination_n +
                             at.fold * args_.folded.step + channel * args_.destination_c +
                             int64_t{p} * args_.destination_h;
      if (at.channel >= args_.rows || !args_.folded.has(at, p, q)) continue;
      double& to = destination_.at(row_at + int64_t{q} * args_.destination_w);
      const int32_t result = sum(tile.group, row);
      // Of a fold all channels meet the same.
      if (args_.folded.count > 1 && (at.channel == 0 || at.channel == args_.rows - 1)) {
        ASSERT_EQ(own_sum(tile.group, row, n, p, q), result);
      }
      const double value = result + (bias_.empty() ? 0 : bias_.at(channel));
      // A row's last tile may have pixels of the one before it where tiles are whole.
      ASSERT_TRUE(std::isnan(to) || (is_whole_ && to == value)) << "written twice";
      to = value;
    }
  }

  // As flat_lines.cuh: positions run on from row to row, and those of the gap have no output.
  void write_flat_rows(const TilePosition& tile, int32_t group, int32_t cell, int32_t pixel) {
    const halo::FlatPixels pixels =
        halo::flat_pixels(tile.w, tile.w / args_.source_h, args_.destination_h);
    if (pixel / halo::kFlatGap * halo::kFlatGap == pixels.before_gap) return;
    meet(cell);
    for (int32_t row = group * kRowsOfGroup; row < (group + 1) * kRowsOfGroup; ++row) {
      if (row >= args_.rows) break;
      double& to =
          destination_.at(launch_.destination_at + tile.image * args_.destination_n +
                          row * args_.destination_c + pixels.first + pixels.distance(pixel));
      const double value = sum(0, row) + (bias_.empty() ? 0 : bias_.at(row));
      ASSERT_TRUE(std::isnan(to) || to == value) << "written twice";
      to = value;
    }
  }

  // Brings what the taps of a pixel meet side by side, as a row's weights lie.
  void meet(int32_t cell) {
    for (int32_t tap = 0; tap < args_.taps; ++tap) {
      const int32_t met = cell + tap_cells_[tap];
      ASSERT_LT(met, args_.window_cells);
      std::copy_n(&window_[size_t(met) * channels_], channels_, &met_[size_t(tap) * channels_]);
    }
  }

  int32_t sum(int32_t group, int32_t row) const {
    const int16_t* weights = &weights_[(size_t(group) * rows_of_group_ + row) * met_.size()];
    return std::inner_product(met_.begin(), met_.end(), weights, int32_t{0});
  }

  bool has_own_tap(int32_t row, int32_t tap) const {
    const auto has = [](const halo::OwnTaps& own, int32_t i) {
      return i >= own.first && i < own.first + own.count;
    };
    const halo::FoldedRows::Row of = args_.folded.at(row);
    return has(args_.own_taps_h(of), tap / args_.w.taps) &&
           has(args_.own_taps_w(of), tap % args_.w.taps);
  }

  // As repair.cu.
  int32_t own_sum(int32_t group, int32_t row, int32_t n, int32_t p, int32_t q) const {
    int32_t result = 0;
    const int16_t* weights =
        &weights_[(size_t(group) * rows_of_group_ + row) * args_.taps * channels_];
    for (int32_t tap = 0; tap < args_.taps; ++tap, weights += channels_) {
      const int32_t tap_h = tap / args_.w.taps, tap_w = tap % args_.w.taps;
      const int32_t y = args_.h.met_by(p, tap_h), x = args_.w.met_by(q, tap_w);
      if (!has_own_tap(row, tap) || y < 0 || y >= args_.h.source_size || x < 0 ||
          x >= args_.w.source_size) {
        continue;
      }
      const int64_t first = n * args_.source_n + int64_t{group} * args_.channels * args_.source_c +
                            y * int64_t{args_.source_h} + x;
      for (int32_t c = 0; c < args_.channels; ++c) {
        result += weights[c] * static_cast<int32_t>(source_[first + c * args_.source_c]);
      }
    }
    return result;
  }

  static constexpr int16_t kNothing = 10007;  // in cells that nothing was brought to

  const Launch& launch_;
  const Arguments& args_;
  const Values &source_, &bias_;
  Values& destination_;
  const int32_t channels_;       // of a group's source, in whole chunks
  std::vector<int16_t> window_;  // (cell, channel)
  std::vector<int16_t> met_;     // (tap, channel), by one pixel
  int32_t rows_of_group_;
  std::vector<int16_t> weights_;  // (group, row, tap, channel)
  std::vector<int32_t> tap_cells_;
  bool is_whole_ = false;  // no tile reaches beyond its row
  bool is_flat_ = false;   // or beyond its plane, where all is one row
};

// All launches of a plan for a flattened() problem.
Values emulate(const Conv2dProblem& p, const Plan& plan, const Numbers& numbers) {
  const bool fprop = plan.direction == Direction::kFprop;
  Values destination((fprop ? numbers.output : numbers.grad_input).size(), std::nan(""));
  const std::vector<Launch> launches = halo::make_launches(p, plan);
  EXPECT_EQ(plan.workspace_bytes, halo::workspace_bytes(launches));
  const auto packs = halo::make_pack_arguments(p, plan, launches);
  for (const Launch& launch : launches) {
    bool packed = false;
    for (const PackArguments& pack : packs) {
      for (const PackPhase& phase : pack.phases) {
        if (phase.blocks == 0 || phase.packed_at * 16 != launch.packed_at) continue;
        packed = true;
        Emulation(launch, pack, phase, fprop ? numbers.input : numbers.grad_output, numbers.filter,
                  fprop ? numbers.bias : Values{}, destination)
            .run(plan.tile);
      }
    }
    EXPECT_TRUE(packed);
  }
  if (const auto zeros = halo::make_zero_arguments(p, plan.direction)) {
    for (int64_t plane = 0; plane < zeros->planes; ++plane) {
      for (int32_t pixel = 0; pixel < zeros->pixels; ++pixel) {
        const int32_t h = zeros->columns.quotient(pixel);
        const int32_t w = pixel - h * zeros->columns.divisor;
        if (!zeros->is_zero(h, w)) continue;
        double& to = destination.at(plane / zeros->channels * zeros->strides.n +
                                    plane % zeros->channels * zeros->strides.c +
                                    h * zeros->strides.h + w * zeros->strides.w);
        EXPECT_TRUE(std::isnan(to)) << "written twice";
        to = 0;
      }
    }
  }
  return destination;
}

// Some plans of each fold, from the first to the last, the fewer the more there is to add, others
// for another shape. Splits only share out the chunks.
std::vector<Plan> some_plans(const Conv2dProblem& p, Direction direction, bool tf32) {
  const auto of_each_fold = static_cast<size_t>(std::clamp(5e7 / p.flop(), 2.0, 10.0));
  std::vector<Plan> some;
  const std::vector<Plan> all = halo::make_plans(p, direction, h200(), tf32);
  for (const int kind : {1, 2, 4, 8, -2, -4, -8}) {  // folds; negative: of columns
    std::vector<Plan> plans;
    std::copy_if(all.begin(), all.end(), std::back_inserter(plans), [&](const Plan& plan) {
      return (plan.fold_columns ? -plan.fold : plan.fold) == kind && plan.splits == 1;
    });
    const size_t step = std::max<size_t>(plans.size() / of_each_fold, 1);
    const size_t first = static_cast<size_t>(p.h + p.w) % step;
    for (size_t i = first; i < plans.size(); i += step) some.push_back(plans[i]);
  }
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [](const Plan& plan) { return plan.tile.copied; });
  return some;
}

class Sm90Emulation : public ::testing::TestWithParam<Shape> {};

TEST_P(Sm90Emulation, IsExactOnSmallIntegers) {
  Conv2dProblem whole = GetParam().problem;
  const Numbers numbers(whole);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    whole.type = type;
    const Conv2dProblem p = flattened(whole);
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      if (!hopper_rows_decline(whole, direction, h200()).empty()) continue;
      const Values& expected = direction == Direction::kFprop ? numbers.output : numbers.grad_input;
      for (const bool tf32 : {true, false}) {
        if (!tf32 && type != DataType::kFloat32) continue;
        for (const Plan& plan : some_plans(whole, direction, tf32)) {
          const Values result = emulate(p, plan, numbers);
          ASSERT_EQ(result, expected) << p << plan;
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, Sm90Emulation, ::testing::ValuesIn(load_shapes("edges")),
                         name_of_shape);

}  // namespace
}  // namespace haloconv::testing
