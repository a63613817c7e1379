// The kernels of first layers, followed on the host: rows of units go through a ring as large as
// the kernels', operands are read from it by the descriptors that the kernels make, and what comes
// out is held against the definition. The order in which warps take turns is not followed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "chip/known_chips.h"
#include "conv2d/families/first_layers/filter_image.h"
#include "conv2d/families/first_layers/operands.h"
#include "conv2d/families/first_layers/plan.h"
#include "conv2d/families/first_layers/sum_place.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/families/first_layers/ring_emulation.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/shared_memory_emulation.h"

namespace haloconv::testing {
namespace {

// Calls tile(place) for the tiles of a run in their order, with the rows that they need in the
// ring.
template <class Tile>
void sweep_run(const Sweep& sweep, int32_t run, Ring& ring, Tile tile) {
  const int32_t end = sweep.first_tile(run + 1);
  for (int32_t i = sweep.first_tile(run); i < end; ++i) {
    const TilePlace place(sweep, i);
    if (i == sweep.first_tile(run) || place.band == 0) {
      ring.begin_segment(place, sweep.rows_of_segment(std::min(place.tiles_below(sweep), end - i)));
    }
    const bool is_last = i + 1 == end || place.tiles_below(sweep) == 1;
    const int32_t done = is_last ? sweep.rows_of_tile() : sweep.rows_to_next();
    ring.wait(std::max(sweep.rows_of_tile(), done));
    tile(place);
    ring.release(done);
    if (is_last) {
      EXPECT_TRUE(ring.segment_is_done());
    }
    if (::testing::Test::HasFailure()) return;
  }
}

Values emulate_units(const Conv2dProblem& p, const Plan& plan, const Values& input,
                     const Values& filter) {
  const FpropArguments& args = plan.fprop;
  const Sweep& sweep = args.sweep;
  const int32_t channels = plan.channels;
  const auto bytes = static_cast<int32_t>(size_of(p.type));
  Values output(output_count(p), kNothing);
  for (int32_t tile_of_k = 0; tile_of_k < args.channel_tiles.divisor; ++tile_of_k) {
    Memory memory(bytes);
    const auto value_at = [&](uint32_t address) { return memory.at(address); };
    const auto elements =
        static_cast<int32_t>(filter_image_bytes(sweep.units, p.r, channels) / bytes);
    EXPECT_LE(elements * bytes, static_cast<int32_t>(kRingAt));
    for (int32_t i = 0; i < elements; ++i) {
      const FilterPlace place(sweep.units, channels, i);
      const int64_t k = tile_of_k * channels + place.channel;
      memory.at(i * bytes) = place.exists(sweep.units) && k < p.k
                                 ? filter.at(((k * p.c + place.c) * p.r + place.r) * p.s + place.s)
                                 : 0;
    }
    for (int32_t run = 0; run < sweep.runs; ++run) {
      Ring ring(sweep, p, input, memory);
      sweep_run(sweep, run, ring, [&](const TilePlace& place) {
        for (int32_t group = 0; group < kMathGroups; ++group) {
          const int32_t group_row = sweep.tile_rows > 1 ? group : 0;
          const int32_t group_column = sweep.tile_rows > 1 ? 0 : group * 64;
          const int32_t row_p = place.band * sweep.tile_rows + group_row;
          const int64_t first_q = place.strip * sweep.columns + group_column;
          const auto pixels = static_cast<int32_t>(std::min<int64_t>(64, p.q() - first_q));
          if (row_p >= p.p() || pixels <= 0) continue;
          Values sums(size_t(pixels) * channels, 0);
          uint32_t filter_at = 0;
          for (int32_t r = 0; r < sweep.r; ++r) {
            const uint32_t at =
                kRingAt + group_column * kUnitBytes +
                ring.slot(group_row * sweep.stride_h + r * sweep.dilation_h) * sweep.row_bytes;
            for (int32_t g = 0; g < sweep.units.groups; g += 2) {
              const uint32_t first = sweep.units.group[g].unit * kUnitBytes;
              const uint32_t second = sweep.units.group[g + 1].unit * kUnitBytes;
              const uint64_t a = unit_operand(at + first, second - first);
              const uint64_t b = unit_operand(filter_at, channels * kUnitBytes);
              add_products(sums, emulated_operand(value_at, a, true, bytes, pixels),
                           emulated_operand(value_at, b, true, bytes, channels), pixels, channels);
              filter_at += 2 * channels * kUnitBytes;
            }
          }
          for (int32_t pixel = 0; pixel < pixels; ++pixel) {
            for (int32_t n = 0; n < channels; ++n) {
              const int64_t k = tile_of_k * channels + n;
              if (k >= p.k) continue;
              double& to =
                  output.at(((place.image * p.k + k) * p.p() + row_p) * p.q() + first_q + pixel);
              EXPECT_TRUE(std::isnan(to)) << "written twice";
              to = sums[pixel * channels + n];
            }
          }
        }
      });
    }
  }
  return output;
}

// Rows of a tile, as copies bring them.
std::vector<Values> rows_of_tile(const Conv2dProblem& p, const Sweep& sweep, const PlainRows& plain,
                                 const TilePlace& place, const Values& input) {
  const auto c = static_cast<int32_t>(p.c);
  const int32_t first =
      place.strip * sweep.columns * plain.pixel_step - sweep.pad_left * c - plain.shift;
  EXPECT_EQ(first % kPlainUnitElements, 0) << "the copy engine takes multiples of 16 bytes";
  std::vector<Values> rows;
  for (int32_t i = 0; i < sweep.rows_of_tile(); ++i) {
    const int32_t row = place.band * sweep.tile_rows * sweep.stride_h - sweep.pad_top + i;
    Values& values = rows.emplace_back(plain.row_bytes() / 2, 0);
    for (int32_t e = 0; e < static_cast<int32_t>(values.size()); ++e) {
      const int32_t at = first + e;
      if (row < 0 || row >= p.h || at < 0 || at >= p.w * c) continue;
      values[e] = input.at(((place.image * p.c + at % c) * p.h + row) * p.w + at / c);
    }
  }
  return rows;
}

// From rows as they lie: an operand's words as threads load them.
Values emulate_plain_rows(const Conv2dProblem& p, const Plan& plan, const Values& input,
                          const Values& filter) {
  const FpropArguments& args = plan.fprop;
  const Sweep& sweep = args.sweep;
  const PlainRows& plain = *plan.plain;
  Values output(output_count(p), kNothing);
  for (int32_t index = 0; index < sweep.tiles; ++index) {
    const TilePlace place(sweep, index);
    const std::vector<Values> rows = rows_of_tile(p, sweep, plain, place, input);
    for (int32_t group = 0; group < kMathGroups; ++group) {
      for (int32_t number = 0; number < 64; ++number) {
        const int32_t tile_row = plain.tile_row(sweep, group, number);
        const int32_t column = plain.column(sweep, group, number);
        if (number % 16 < 8) {
          EXPECT_EQ(plain.run_bytes(group, column) + plain.half_bytes(),
                    plain.run_bytes(group, plain.column(sweep, group, number + 8)));
        }
        const int32_t row_p = place.band * sweep.tile_rows + tile_row;
        const int32_t q = place.strip * sweep.columns + column;
        if (row_p >= p.p() || q >= p.q()) continue;
        for (int64_t k = 0; k < p.k; ++k) {
          double sum = 0;
          for (int32_t r = 0; r < p.r; ++r) {
            const Values& row = rows.at(tile_row * sweep.stride_h + r * sweep.dilation_h);
            for (int32_t deep = 0; deep < plain.steps * kDeep; ++deep) {
              const int32_t step = deep / kDeep, half = deep % kDeep / 8, t = deep % 8 / 2;
              const RunMask mask = plain.mask(group, t);
              uint32_t kept = ~0u;
              if (half == 0 && step == 0) kept &= mask.first;
              if (step + 1 == plain.steps) kept &= mask.last[half];
              const int32_t at = plain.run_bytes(group, column) + deep * 2;
              EXPECT_EQ((at - deep % 2 * 2) % 4, 0) << "a word";
              const double a = (kept >> deep % 2 * 16 & 1) != 0 ? row.at(at / 2) : 0;
              const int32_t tap = plain.tap_of(group, deep);
              const bool exists = tap >= 0 && tap < plain.taps;
              EXPECT_EQ(exists, (kept >> deep % 2 * 16 & 1) != 0);
              const double b =
                  exists ? filter.at(((k * p.c + tap % p.c) * p.r + r) * p.s + tap / p.c) : 0;
              sum += a * b;
            }
          }
          double& to = output.at(((place.image * p.k + k) * p.p() + row_p) * p.q() + q);
          EXPECT_TRUE(std::isnan(to)) << "written twice";
          to = sum;
          if (::testing::Test::HasFailure()) return output;
        }
      }
    }
  }
  return output;
}

Values emulate_fprop(const Conv2dProblem& p, const Plan& plan, const Values& input,
                     const Values& filter) {
  return plan.plain ? emulate_plain_rows(p, plan, input, filter)
                    : emulate_units(p, plan, input, filter);
}

struct Gradients {
  Values filter, bias;
};

// From rows as they lie.
Gradients emulate_plain_wgrad(const Conv2dProblem& p, const Plan& plan, const Values& grad_output,
                              const Values& input) {
  const PlainWgradArguments args{.wgrad = plan.wgrad,
                                 .rows = *plan.plain,
                                 .groups = plan.plain_groups,
                                 .chunks = plan.channels / kPlainChunk};
  const Sweep& sweep = args.wgrad.sweep;
  const int32_t threads = args.math_threads(), of_thread = args.chunks * kChunkSums;
  Gradients result{Values(filter_count(p), 0), Values(p.k, 0)};
  std::vector<int> writers(filter_count(p), 0);
  for (int32_t index = 0; index < sweep.tiles; ++index) {
    const TilePlace place(sweep, index);
    const std::vector<Values> rows = rows_of_tile(p, sweep, args.rows, place, input);
    for (int32_t at = 0; at < args.wgrad.channel_tiles * of_thread * threads; ++at) {
      const int32_t thread = at % threads, sum = at / threads % of_thread;
      const PlainSumPlace to(args, at / threads / of_thread, sum, thread);
      if (!to.is_filter && !to.is_bias) continue;
      const PlainRowPlace of(args, plain_row_of(thread, sum % kChunkSums / 2 % 2));
      EXPECT_EQ(of.is_of_ones, to.is_bias);
      EXPECT_TRUE(of.exists);
      double total = 0;
      for (int32_t i = 0; i < 128; ++i) {
        const int32_t tile_row = i / sweep.columns, column = i % sweep.columns;
        const int32_t row_p = place.band * sweep.tile_rows + tile_row;
        const int32_t q = place.strip * sweep.columns + column;
        if (row_p >= p.p() || q >= p.q()) continue;
        const Values& row = rows.at(tile_row * sweep.stride_h + of.r * sweep.dilation_h);
        const double a =
            of.is_of_ones ? 1 : row.at(of.element_bytes / 2 + column * args.rows.pixel_step);
        total += a * grad_output.at(((place.image * p.k + to.k) * p.p() + row_p) * p.q() + q);
      }
      if (to.is_bias) {
        result.bias.at(to.k) += total;
      } else {
        const int64_t element = ((to.k * p.c + to.c) * p.r + to.r) * p.s + to.s;
        result.filter.at(element) += total;
        writers.at(element) += index == 0 ? 1 : 0;
      }
    }
  }
  for (const int count : writers) EXPECT_EQ(count, 1);
  return result;
}

// What a warp's lanes have of two operands of an instruction.
struct LaneOperands {
  double channels[2 * kMostWarpChunks][4], elements[kWarpInstructions][2];
};

// Of the 16 x 8 products of eight pixels, the one that a lane adds to one of its four sums.
double warp_product(const std::vector<LaneOperands>& lanes, int32_t lane, int32_t below,
                    int32_t beside, int32_t of_four) {
  const int32_t row = lane / 4 + of_four / 2 * 8, column = lane % 4 * 2 + of_four % 2;
  double sum = 0;
  for (int32_t deep = 0; deep < kWarpDeep; ++deep) {
    const LaneOperands& a = lanes[row % 8 * 4 + deep % 4];
    const LaneOperands& b = lanes[column * 4 + deep % 4];
    sum += a.channels[below][deep / 4 * 2 + row / 8] * b.elements[beside][deep / 4];
  }
  return sum;
}

// By the warp's instruction. Values are read from a stage of shared memory as large as the
// kernel's.
Gradients emulate_warp_products(const Conv2dProblem& p, const Plan& plan, const Values& grad_output,
                                const Values& input) {
  const WarpProductsArguments& args = *plan.warp_products;
  const Sweep& sweep = args.wgrad.sweep;
  const int32_t threads = args.sum_threads(), of_thread = args.sums_of_thread();
  const int32_t input_at = args.chunks * args.chunk_bytes();
  EXPECT_LE(input_at + args.input_bytes(), args.stage_bytes);
  const auto c = static_cast<int32_t>(p.c);
  std::vector<double> sums(size_t(args.wgrad.channel_tiles) * of_thread * threads, 0);
  Gradients result{Values(filter_count(p), kNothing), Values(p.k, 0)};
  for (int32_t index = 0; index < args.wgrad.channel_tiles * sweep.tiles; ++index) {
    const int32_t channel_tile = index / sweep.tiles;
    const TilePlace place(sweep, index % sweep.tiles);
    std::vector<double> stage(args.stage_bytes / 4, kNothing);
    for (int32_t i = 0; i < args.chunks * args.pixels() * kWarpChannels; ++i) {
      const int32_t channel = i % kWarpChannels, pixel = i / kWarpChannels % args.pixels();
      const int64_t k =
          (channel_tile * args.chunks + i / kWarpChannels / args.pixels()) * kWarpChannels +
          channel;
      const int64_t q = place.strip * sweep.columns + pixel % sweep.columns;
      const int64_t row = place.band * sweep.tile_rows + pixel / sweep.columns;
      const bool exists = k < p.k && q < p.q() && row < p.p();
      stage.at(swizzled(i * 4, 128) / 4) =
          exists ? grad_output.at(((place.image * p.k + k) * p.p() + row) * p.q() + q) : 0;
    }
    EXPECT_EQ(args.first_element(place.strip) % 4, 0);
    for (int32_t i = 0; i < args.input_bytes() / 4; ++i) {
      const int32_t row = place.band * sweep.rows_to_next() - sweep.pad_top + i / args.pitch;
      const int32_t at = args.first_element(place.strip) + i % args.pitch;
      const bool exists = row >= 0 && row < p.h && at >= 0 && at < p.w * c;
      stage.at(input_at / 4 + i) =
          exists ? input.at(((place.image * p.c + at % c) * p.h + row) * p.w + at / c) : 0;
    }
    const int32_t tile_rows = std::min(sweep.tile_rows, sweep.p - place.band * sweep.tile_rows);
    const int32_t columns = std::min(sweep.columns, sweep.q - place.strip * sweep.columns);
    for (int32_t step = 0; step < tile_rows * ((columns + 7) / 8); ++step) {
      const int32_t tile_row = step / ((columns + 7) / 8), first = step % ((columns + 7) / 8) * 8;
      for (int32_t warp = 0; warp < args.column_warps; ++warp) {
        std::vector<LaneOperands> lanes(32);
        for (int32_t lane = 0; lane < 32; ++lane) {
          for (int32_t half = 0; half < 2; ++half) {
            for (int32_t i = 0; i < args.chunks * 4; ++i) {
              const int32_t at = i / 4 * args.chunk_bytes() +
                                 (tile_row * sweep.columns + first) * 128 +
                                 channels_at(lane, half, i / 2 % 2) + i % 2 * 4;
              lanes[lane].channels[i / 2][half * 2 + i % 2] = stage.at(at / 4);
              const int64_t k =
                  channel_tile * args.chunks * kWarpChannels + i / 2 * 16 + lane / 4 * 2 + i % 2;
              if (warp == 0 && k < p.k) result.bias.at(k) += stage.at(at / 4);
            }
            const int32_t pixel = first + pixel_of_lane(lane, half);
            for (int32_t j = 0; j < kWarpInstructions; ++j) {
              const WarpColumn column(args, warp * kWarpColumns + j * 8 + lane / 4);
              const int32_t at = input_at + tile_row * sweep.stride_h * args.pitch * 4 +
                                 pixel * args.pixel_step * 4 + column.bytes;
              lanes[lane].elements[j][half] = pixel < columns ? stage.at(at / 4) : 0;
            }
          }
        }
        for (int32_t i = 0; i < of_thread * 32; ++i) {
          const int32_t sum = i / 32, instruction = sum / 4;
          sums[(channel_tile * of_thread + sum) * threads + warp * 32 + i % 32] +=
              warp_product(lanes, i % 32, instruction / kWarpInstructions,
                           instruction % kWarpInstructions, sum % 4);
        }
      }
    }
  }
  int64_t biases = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<int32_t>(i);
    const WarpSumPlace place(args, at / threads / of_thread, at / threads % of_thread,
                             at % threads);
    if (place.is_bias) ++biases;
    if (!place.is_filter) continue;
    double& to = result.filter.at(((place.k * p.c + place.c) * p.r + place.r) * p.s + place.s);
    EXPECT_TRUE(std::isnan(to)) << "written twice";
    to = sums[i];
  }
  EXPECT_EQ(biases, args.wgrad.with_bias ? p.k : 0) << "sums in whose place the bias's come";
  return result;
}

Gradients emulate_wgrad(const Conv2dProblem& p, const Plan& plan, const Values& grad_output,
                        const Values& input) {
  if (plan.warp_products) return emulate_warp_products(p, plan, grad_output, input);
  if (plan.plain) return emulate_plain_wgrad(p, plan, grad_output, input);
  const WgradArguments& args = plan.wgrad;
  const Sweep& sweep = args.sweep;
  const int32_t columns = plan.sums.columns, of_thread = plan.sums.rows * columns / 2;
  const int32_t boxes = args.splits_rows ? 1 : 2;
  const int32_t of_units = std::min(columns, sweep.units.groups * sweep.units.elements);
  Gradients result{Values(filter_count(p), 0), Values(p.k, 0)};
  std::vector<int> writers(filter_count(p), 0);
  for (int32_t tile_of_k = 0; tile_of_k < args.channel_tiles; ++tile_of_k) {
    // (sum, math thread), of all runs.
    Values sums(size_t(of_thread) * 256, 0);
    for (int32_t run = 0; run < sweep.runs; ++run) {
      Memory memory(2);
      const auto value_at = [&](uint32_t address) { return memory.at(address); };
      Ring ring(sweep, p, input, memory);
      sweep_run(sweep, run, ring, [&](const TilePlace& place) {
        for (int32_t i = 0; i < boxes * 128 * 64; ++i) {  // as the copy engine
          const int32_t channel = i % 64, pixel = i / 64 % 128, box = i / 64 / 128;
          const int64_t k = tile_of_k * plan.channels + box * 64 + channel;
          const int64_t q = place.strip * sweep.columns + pixel % sweep.columns;
          const int64_t row = place.band * sweep.tile_rows + pixel / sweep.columns;
          const bool exists = k < p.k && q < p.q() && row < p.p();
          const int32_t of_row = box * 128 * 64 + pixel / 64 * 64 * 64 + channel * 64 + pixel % 64;
          memory.at(swizzled((plan.rows_innermost ? of_row : i) * 2, 128)) =
              exists ? grad_output.at(((place.image * p.k + k) * p.p() + row) * p.q() + q) : 0;
        }
        const int32_t tile_rows = std::min(sweep.tile_rows, sweep.p - place.band * sweep.tile_rows);
        const int32_t steps =
            (std::min(sweep.columns, sweep.q - place.strip * sweep.columns) + 15) / 16;
        for (int32_t group = 0; group < 2; ++group) {
          for (int32_t row = 0; row < plan.sums.rows; ++row) {
            const int32_t r = args.splits_rows ? row * 2 + group : row;
            if (r >= sweep.r) continue;
            Values products(size_t{64} * of_units, 0);
            for (int32_t tile_row = 0; tile_row < tile_rows; ++tile_row) {
              for (int32_t step = 0; step < steps; ++step) {
                const int32_t pixel = tile_row * sweep.columns + step * 16;
                const uint64_t a = pixel_operand(
                    (args.splits_rows ? 0 : group) * 128 * 128 +
                    (plan.rows_innermost ? pixel / 64 * 64 * 128 + pixel % 64 * 2 : pixel * 128));
                const uint64_t b =
                    group_operand(kRingAt + sweep.units.group[0].unit * kUnitBytes +
                                      ring.slot(tile_row * sweep.stride_h + r * sweep.dilation_h) *
                                          sweep.row_bytes +
                                      step * 16 * kUnitBytes,
                                  args.group_bytes);
                add_products(products, emulated_operand(value_at, a, plan.rows_innermost, 2, 64),
                             emulated_operand(value_at, b, false, 2, of_units), 64, of_units);
              }
            }
            for (int32_t thread = group * 128; thread < (group + 1) * 128; ++thread) {
              for (int32_t in_row = 0; in_row < columns / 2; ++in_row) {
                const int32_t lane = thread % 32;
                const int32_t m = thread % 128 / 32 * 16 + lane / 4 + in_row / 2 % 2 * 8;
                const int32_t n = in_row / 4 * 8 + lane % 4 * 2 + in_row % 2;
                if (n >= of_units) continue;
                sums[size_t(row * (columns / 2) + in_row) * 256 + thread] +=
                    products[m * of_units + n];
              }
            }
          }
        }
      });
    }
    for (int32_t thread = 0; thread < 256; ++thread) {
      for (int32_t sum = 0; sum < of_thread; ++sum) {
        const SumPlace place(args, columns, tile_of_k, sum, thread);
        const double value = sums[size_t(sum) * 256 + thread];
        if (place.is_bias) result.bias.at(place.k) = value;
        if (!place.is_filter) continue;
        const int64_t at = ((place.k * p.c + place.c) * p.r + place.r) * p.s + place.s;
        EXPECT_EQ(++writers.at(at), 1);
        result.filter.at(at) = value;
      }
    }
  }
  EXPECT_EQ(std::count(writers.begin(), writers.end(), 1), filter_count(p));
  return result;
}

class FirstLayersEmulation : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    p_ = GetParam().problem;
    p_.type = DataType::kBFloat16;
    p_.set_dense_strides(true);
  }

  // With few blocks each has several tiles and segments.
  static Chip chip_of(int multiprocessors) {
    Chip chip = h200();
    chip.multiprocessors = multiprocessors;
    return chip;
  }

  void use_rows_innermost() {
    p_.set_dense_strides(false);
    const int64_t row = round_up(p_.q(), 8), plane = row * p_.p();
    p_.output = {.n = plane * p_.k, .c = plane, .h = row, .w = 1};
  }

  void check_fprop();
  void check_wgrad();

  Conv2dProblem p_;
};

void FirstLayersEmulation::check_fprop() {
  const Values input = small_integers(input_count(p_), 1),
               filter = small_integers(filter_count(p_), 2);
  const Values expected = reference_fprop(p_, input, filter, {});
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat32}) {
    p_.type = type;
    ASSERT_EQ(declines(p_, Direction::kFprop, true, h200()), "");
    for (const int multiprocessors : {1, 3, 132}) {
      const std::vector<Plan> plans =
          make_plans(p_, Direction::kFprop, chip_of(multiprocessors), false);
      // Five to eight channels of float32 are more than a unit has, and so many taps a row more
      // than there are planes for.
      EXPECT_EQ(plans.empty(), type == DataType::kFloat32 && (p_.c > 4 || p_.s * p_.c > 32));
      for (const Plan& plan : plans) {
        ASSERT_EQ(emulate_fprop(p_, plan, input, filter), expected) << text_of(p_, plan);
        if (HasFailure()) return;
      }
    }
  }
}

// A pixel that is not finite reaches the outputs whose taps meet it and no others.
TEST_P(FirstLayersEmulation, FpropLetsInfinitiesReachTheirTapsAlone) {
  Values input = small_integers(input_count(p_), 1);
  const Values filter = small_integers(filter_count(p_), 2);
  make_some_not_finite(input, p_.n, p_.c, p_.h, p_.w);
  const Values expected = reference_fprop(p_, input, filter, {});
  for (const Plan& plan : make_plans(p_, Direction::kFprop, chip_of(3), false)) {
    const Values result = emulate_fprop(p_, plan, input, filter);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::isnan(result[i]), std::isnan(expected[i])) << text_of(p_, plan) << " at " << i;
      if (!std::isnan(expected[i])) {
        ASSERT_EQ(result[i], expected[i]) << text_of(p_, plan) << " at " << i;
      }
    }
  }
}

void FirstLayersEmulation::check_wgrad() {
  const Values input = small_integers(input_count(p_), 1);
  const Values grad_output = small_integers(output_count(p_), 4);
  const Values expected = reference_wgrad(p_, grad_output, input);
  const Values expected_bias = reference_bias_grad(p_, grad_output);
  int plans = 0;
  for (const bool with_bias : {false, true}) {
    for (const int multiprocessors : {1, 3}) {
      for (const Plan& plan :
           make_plans(p_, Direction::kWgrad, chip_of(multiprocessors), with_bias)) {
        ++plans;
        const Gradients result = emulate_wgrad(p_, plan, grad_output, input);
        ASSERT_EQ(result.filter, expected) << text_of(p_, plan);
        if (with_bias) {
          ASSERT_EQ(result.bias, expected_bias) << text_of(p_, plan);
        }
        if (HasFailure()) return;
      }
    }
  }
  // Their taps do not lie evenly, or are too many.
  const std::string& name = GetParam().name;
  const bool may_have_none =
      name == "stride_three" || name == "eight_channels" || name == "lying_11x11";
  EXPECT_TRUE(plans > 0 || may_have_none);
}

TEST_P(FirstLayersEmulation, FpropIsExactOnSmallIntegers) { check_fprop(); }
TEST_P(FirstLayersEmulation, FpropIsExactWithRowsInnermost) {
  use_rows_innermost();
  check_fprop();
}
TEST_P(FirstLayersEmulation, WgradIsExactOnSmallIntegers) { check_wgrad(); }
TEST_P(FirstLayersEmulation, WgradInTf32IsExactOnSmallIntegers) {
  p_.type = DataType::kFloat32;
  const std::string reason = declines(p_, Direction::kWgrad, true, h200());
  EXPECT_TRUE(reason == "" || p_.w * p_.c % 4 != 0) << reason;
  if (reason.empty()) check_wgrad();
}
TEST_P(FirstLayersEmulation, WgradIsExactWithRowsInnermost) {
  use_rows_innermost();
  check_wgrad();
}

INSTANTIATE_TEST_SUITE_P(Shapes, FirstLayersEmulation,
                         ::testing::ValuesIn(load_shapes("first_layers")), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
