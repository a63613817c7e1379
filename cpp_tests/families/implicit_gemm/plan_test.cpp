// The planner of the kernels that compute fprop and dgrad as products of matrices: what it
// declines, that its plans fit each chip, and that the units that its kernels copy are those of the
// definition.
#include "conv2d/families/implicit_gemm/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/strips/strips.h"
#include "conv2d/families/implicit_gemm/team_descents/team_descents.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::Access;
using implicit_gemm::Arguments;
using implicit_gemm::FragmentPlace;
using implicit_gemm::FragmentWord;
using implicit_gemm::kTiles;
using implicit_gemm::Plan;
using implicit_gemm::Tile;
using implicit_gemm::UnitPlace;
using implicit_gemm::UnitShift;

constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad};

std::vector<Plan> plans_of(const Conv2dProblem& p, Direction direction, const Chip& chip) {
  if (!implicit_gemm::declines(p, direction, chip, true).empty()) return {};
  return implicit_gemm::make_plans(p, direction, chip, true);
}

// Of a dense tensor with rows innermost to the strides of the problem, whose tensors are dense too.
Values in_memory(const Values& values, const Strides& strides, int64_t c, int64_t h, int64_t w) {
  Values memory(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    memory[at / (c * h * w) * strides.n + at / (h * w) % c * strides.c + at / w % h * strides.h +
           at % w * strides.w] = values[i];
  }
  return memory;
}

// What the kernels compute, a number at a time, by the arguments that they are given.
class Emulation {
 public:
  Emulation(const Conv2dProblem& p, const Plan& plan, const Values& source, const Values& filter)
      : unit_(implicit_gemm::unit_elements(p.type)), plan_(plan), source_(source) {
    filter_ = plan.packs ? Values(plan.workspace_bytes / size_of(p.type)) : filter;
    for (const Arguments& args : plan.launches) {
      if (!plan.packs) continue;
      has_fragments(args) ? pack_fragments(args, filter) : pack(args, filter);
    }
  }

  Values run(size_t elements) {
    result_ = Values(elements, NAN);
    for (const Arguments& args : plan_.launches) {
      for (int32_t i = 0; i < args.phase_count; ++i) {
        const Phase& phase = args.phases[i];
        // Tiles follow each other without gaps.
        const int64_t tiles = tiles_of(phase);
        EXPECT_EQ(phase.first_tile + tiles, i + 1 < args.phase_count ? args.phases[i + 1].first_tile
                                                                     : int64_t{args.pixel_tiles});
        for (int32_t pixel = 0; pixel < phase.pixels; ++pixel) run_pixel(args, phase, pixel);
      }
    }
    return result_;
  }

 private:
  // Patches of the image, with windows, or so many pixels.
  int64_t tiles_of(const Phase& phase) const {
    if (plan_.windows().count == 0) return ceil_div(phase.pixels, plan_.tile.pixels);
    if (phase.pixels == 0) return 0;
    return phase.pixels / phase.plane.divisor *
           ceil_div(phase.h.pixels, plan_.windows().patch_rows(plan_.tile.pixels)) *
           ceil_div(phase.w.pixels, plan_.windows().patch_columns());
  }

  void pack(const Arguments& args, const Values& filter) {
    const Gather& g = args.geometry;
    for (int32_t i = 0; i < args.phase_count; ++i) {
      const Phase& phase = args.phases[i];
      for (int64_t at = 0; at < int64_t{g.groups} * g.rows * phase.reduction; ++at) {
        const auto index = static_cast<int32_t>(at % phase.reduction);
        const int64_t row = at / phase.reduction % g.rows, group = at / phase.reduction / g.rows;
        const UnitPlace place(args.channel_units, phase.taps_w, index / unit_, unit_);
        const int64_t r = phase.h.first_tap + int64_t{place.y} * g.axis_h.tap_step;
        const int64_t s = phase.w.first_tap + int64_t{place.x} * g.axis_w.tap_step;
        filter_[group * args.filter_group + phase.packed_offset + row * phase.reduction + index] =
            place.channel + index % unit_ >= g.channels
                ? 0
                : filter[group * g.filter_group + row * g.filter.n +
                         (place.channel + index % unit_) * g.filter.c + r * g.filter.h +
                         s * g.filter.w];
      }
    }
  }

  // As the kernel that packs does.
  void pack_fragments(const Arguments& args, const Values& filter) {
    const Gather& g = args.geometry;
    const int32_t word_elements = unit_ / 4;
    const int32_t fragments_of_depth = depth_fragments(args, plan_.tile.channels);
    for (int32_t i = 0; i < args.phase_count; ++i) {
      const Phase& phase = args.phases[i];
      const int64_t units =
          int64_t{phase.reduction / unit_} * fragments_of_depth * implicit_gemm::kFragmentChannels;
      for (int64_t at = 0; at < g.groups * units * unit_; ++at) {
        const int64_t group = at / (units * unit_), number = at / unit_ % units;
        const auto element = static_cast<int32_t>(at % unit_);
        const FragmentPlace place(number, fragments_of_depth, phase);
        const FragmentWord word(place.lane, element / word_elements, /*for_strips=*/false);
        const int32_t row = place.fragment * implicit_gemm::kFragmentChannels + word.channel;
        const int32_t channel =
            (place.unit + word.unit) * unit_ + word.word * word_elements + element % word_elements;
        const int64_t r = phase.h.first_tap + int64_t{place.y} * g.axis_h.tap_step;
        const int64_t s = phase.w.first_tap + int64_t{place.x} * g.axis_w.tap_step;
        const bool exists = row < g.rows && channel < g.channels;
        filter_[group * args.filter_group + phase.packed_offset + number * unit_ + element] =
            exists ? filter[group * g.filter_group + row * g.filter.n + channel * g.filter.c +
                            r * g.filter.h + s * g.filter.w]
                   : 0;
      }
    }
  }

  // Where the packed filter has a channel of a unit of the reduction, for a destination channel of
  // the group; of fragments as cuda/mma.cuh has operand b.
  int64_t place_in_filter(const Arguments& args, const Phase& phase, int32_t row, int32_t unit,
                          const UnitPlace& at, int32_t i) const {
    if (!has_fragments(args)) return int64_t{row} * phase.reduction + unit * unit_ + i;
    const int32_t pair = at.channel / unit_ / 2, number = at.channel / unit_ % 2;
    const int64_t depth = pair * phase.taps.divisor + int64_t{at.y} * phase.taps_w.divisor + at.x;
    const int32_t word_elements = unit_ / 4;
    const int32_t lane = row % 8 * 4 + i / word_elements;
    const int32_t word = row / 8 % 2 * 2 + number;
    return ((depth * depth_fragments(args, plan_.tile.channels) + row / 16) * 32 + lane) * unit_ +
           word * word_elements + i % word_elements;
  }

  void run_pixel(const Arguments& args, const Phase& phase, int32_t pixel) {
    const Gather& g = args.geometry;
    const int32_t image = phase.plane.quotient(pixel), rest = pixel % phase.plane.divisor;
    const int32_t row = phase.columns.quotient(rest), column = rest % phase.columns.divisor;
    const int32_t h = row * g.axis_h.source_step + phase.h.origin;
    const int32_t w = column * g.axis_w.source_step + phase.w.origin;
    const int64_t to = args.destination_offset + image * g.destination.n +
                       (phase.h.first_pixel + row * g.axis_h.pixel_step) * g.destination.h +
                       (phase.w.first_pixel + column * g.axis_w.pixel_step) * g.destination.w;
    for (int32_t channel = 0; channel < g.groups * g.rows; ++channel) {
      const int32_t group = channel / g.rows;
      double sum = 0;
      for (int32_t unit = 0; unit < phase.reduction / unit_; ++unit) {
        const UnitPlace at(args.channel_units, phase.taps_w, unit, unit_);
        const UnitShift shift(g, phase, at);
        if (h + shift.h < 0 || h + shift.h >= g.source_h) continue;
        if (w + shift.w < 0 || w + shift.w >= g.source_w) continue;
        const int64_t from = args.source_offset + int64_t{group} * g.channels * g.source.c +
                             image * g.source.n + h * g.source.h + w * g.source.w + shift.elements +
                             at.channel * (g.source.c - 1);
        const int64_t weights = group * args.filter_group + phase.packed_offset;
        if (plan_.access == Access::kUnits) {
          EXPECT_EQ(from % unit_, 0);
        }
        EXPECT_EQ(weights % unit_, 0);
        for (int32_t i = 0; i < unit_ && at.channel + i < g.channels; ++i) {
          sum += source_[from + i * g.source.c] *
                 filter_[weights + place_in_filter(args, phase, channel % g.rows, unit, at, i)];
        }
      }
      double& result = result_[to + channel * g.destination.c];
      EXPECT_TRUE(std::isnan(result)) << "written twice";
      result = sum;
    }
  }

  int32_t unit_;
  const Plan& plan_;
  const Values& source_;
  Values filter_, result_;
};

// By all plans, each of which must access the tensors so.
void check_definition(const Conv2dProblem& p, Access access) {
  const Values input = small_integers(input_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values grad_output = small_integers(output_count(p), 3);
  const Values in = in_memory(input, p.input, p.c, p.h, p.w);
  const Values weights = in_memory(filter, p.filter, p.group_c(), p.r, p.s);
  const Values out = in_memory(grad_output, p.output, p.k, p.p(), p.q());
  const Values output =
      in_memory(reference_fprop(p, input, filter, {}), p.output, p.k, p.p(), p.q());
  const Values grad_input =
      in_memory(reference_dgrad(p, grad_output, filter), p.input, p.c, p.h, p.w);
  for (const Direction direction : kDirections) {
    const bool fprop = direction == Direction::kFprop;
    const std::vector<Plan> plans = plans_of(p, direction, h200());
    EXPECT_FALSE(plans.empty()) << p;
    for (const Plan& plan : plans) {
      EXPECT_EQ(plan.access, access) << text_of(p, plan);
      const Values& expected = fprop ? output : grad_input;
      EXPECT_EQ(Emulation(p, plan, fprop ? in : out, weights).run(expected.size()), expected)
          << text_of(p, plan);
    }
  }
}

TEST(ImplicitGemmPlan, ComputesTheDefinitionByUnits) {
  for (const char* text :
       {"n2c16h9w7 k8r1s1", "n2c8h13w10 k24r3s3 pad=1,0,2,1",
        "n1c16h8w12 k16r5s3 dil=2,1 pad=4,2,0,3", "n2c24h14w15 k16r3s3 stride=2,2 pad=1,1,1,1",
        "n1c8h12w17 k8r2s4 stride=3,4 pad=1,0,0,2", "n3c8h9w11 k8r1s1 stride=2,2",
        "n1c32h19w10 k16r3s3 stride=2,1 dil=3,2 pad=3,3,1,1 groups=2",
        "n1c8h5w6 k8r2s2 stride=5,5 pad=3,0,0,3"}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Conv2dProblem p = channels_last_problem(text, type);
      check_definition(p, Access::kUnits);
      p.filter = nchw_strides(p.group_c(), p.r, p.s);
      check_definition(p, Access::kUnits);
    }
  }
}

TEST(ImplicitGemmPlan, ComputesTheDefinitionByElements) {
  for (const char* text :
       {"n2c3h9w7 k5r1s1", "n2c3h13w10 k24r3s3 pad=1,0,2,1 stride=2,2",
        "n1c17h8w12 k9r5s3 dil=2,1 pad=4,2,0,3", "n1c1h12w17 k1r2s4 stride=3,4 pad=1,0,0,2",
        "n1c20h19w10 k18r3s3 stride=2,1 dil=3,2 pad=3,3,1,1 groups=2"}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      for (const bool channels_last : {false, true}) {
        Conv2dProblem p = channels_last_problem(text, type);
        p.set_dense_strides(channels_last);
        check_definition(p, Access::kElements);
      }
    }
  }
}

// Rows of dilated filters, each of whose images is computed by itself.
TEST(ImplicitGemmPlan, ComputesTheDefinitionByInterleavedRows) {
  for (const char* text :
       {"n2c9h13w10 k5r3s3 pad=1,0,2,1 dil=2,3", "n1c8h12w9 k9r2s1 pad=0,5,0,0 dil=3,1",
        "n1c3h9w8 k4r3s2 pad=3,3,0,1 dil=4,1", "n1c16h8w7 k16r4s2 pad=2,2,1,0 dil=2,1 groups=2"}) {
    Conv2dProblem p = channels_last_problem(text, DataType::kFloat32);
    p.set_dense_strides(false);
    for (const Direction direction : kDirections) {
      const std::vector<Plan> plans = plans_of(p, direction, h200());
      EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), [](const Plan& plan) {
        return plan.interleaves;
      })) << p;
    }
    check_definition(p, Access::kElements);
  }
}

// A forced group is not timed: on an H200 this took 0.97 of the time of the best plan without.
TEST(ImplicitGemmPlan, ExpectsInterleavedRowsToBeFastest) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = channels_last_problem("n8c32h512w512 k64r5s9 pad=2,2,4,4 dil=2,3", type);
    p.set_dense_strides(false);
    for (const Direction direction : kDirections) {
      const Plan first = plans_of(p, direction, h200()).front();
      EXPECT_TRUE(first.interleaves) << text_of(p, first);
    }
  }
}

TEST(ImplicitGemmPlan, PacksWhatDoesNotLieSo) {
  const auto packs = [](const Conv2dProblem& p, Direction direction, bool is_aligned = true) {
    return implicit_gemm::make_plans(p, direction, h200(), is_aligned).front().packs;
  };
  Conv2dProblem p = channels_last_problem("n2c16h9w7 k8r3s3");
  EXPECT_FALSE(packs(p, Direction::kFprop));
  EXPECT_TRUE(packs(p, Direction::kFprop, false));
  EXPECT_TRUE(packs(p, Direction::kDgrad));
  p.filter = nchw_strides(p.c, p.r, p.s);
  EXPECT_TRUE(packs(p, Direction::kFprop));
  EXPECT_FALSE(packs(channels_last_problem("n2c16h9w7 k8r1s1"), Direction::kFprop));
}

// Of results of 16 channels or fewer, as square_3x3's input gradient has, and with rows innermost.
TEST(ImplicitGemmPlan, HasATileForFewChannels) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = load_shapes("reference").front().problem;
    p.type = type;
    p.set_dense_strides(false);
    EXPECT_EQ(plans_of(p, Direction::kDgrad, h200()).front().tile.channels, 16) << p;
    EXPECT_GT(plans_of(p, Direction::kFprop, h200()).front().tile.channels, 16) << p;
    p.set_dense_strides(true);
    for (const Plan& plan : plans_of(p, Direction::kDgrad, h200())) {
      EXPECT_GT(plan.tile.channels, 16) << text_of(p, plan);
    }
  }
}

void check_fits(const Conv2dProblem& p, const Chip& chip) {
  for (const Direction direction : kDirections) {
    for (const Plan& plan : plans_of(p, direction, chip)) {
      EXPECT_GT(plan.estimated_ms, 0) << text_of(p, plan);
      if (plan.windows().count == 0) {
        EXPECT_GE(plan.stages(), implicit_gemm::kLeastStages) << text_of(p, plan);
        EXPECT_LE(plan.stages(), implicit_gemm::kMostStages) << text_of(p, plan);
      }
      EXPECT_LE(implicit_gemm::shared_bytes(plan.tile, plan.launches.front()),
                chip.shared_bytes_per_block)
          << text_of(p, plan);
      if (!plan.strips) continue;
      const auto element_bytes = static_cast<int32_t>(size_of(p.type));
      const int bytes =
          plan.is_of_team       ? implicit_gemm::team_shared_bytes(*plan.strips, element_bytes)
          : plan.has_descents() ? implicit_gemm::descent_shared_bytes(*plan.strips)
                                : implicit_gemm::strip_shared_bytes(*plan.strips, element_bytes);
      EXPECT_LE(bytes, chip.shared_bytes_per_block) << text_of(p, plan);
    }
  }
}

// Also on chips whose blocks have 99 or 163 KB.
TEST(ImplicitGemmPlan, FitsEachChip) {
  for (const KnownChip& known : known_chips()) {
    const Chip chip = chip_of(known.name);
    for (const char* file : {"reference", "edges", "eights", "layers", "networks", "transposed"}) {
      for (const Shape& shape : load_shapes(file)) {
        for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
          SCOPED_TRACE(known.name);
          Conv2dProblem p = shape.problem;
          p.type = type;
          for (const bool channels_last : {false, true}) {
            p.set_dense_strides(channels_last);
            check_fits(p, chip);
          }
        }
      }
    }
  }
}

// Eight rows' units of one number, which one load reads, and the four of two rows, which eight
// threads write, are in different banks; no two units are in one place.
TEST(ImplicitGemmPlan, UnitsAreInAllBanks) {
  std::set<int32_t> places;
  for (int32_t row = 0; row < 256; ++row) {
    for (int32_t unit = 0; unit < implicit_gemm::kRowUnits; ++unit) {
      places.insert(implicit_gemm::place_of_unit(row, unit));
    }
  }
  EXPECT_EQ(places.size(), 256u * implicit_gemm::kRowUnits);
  EXPECT_EQ(*places.rbegin(), 256 * implicit_gemm::kRowBytes - implicit_gemm::kUnitBytes);
  for (int32_t first = 0; first < 256; first += 8) {
    for (int32_t unit = 0; unit < implicit_gemm::kRowUnits; ++unit) {
      std::set<int32_t> banks;
      for (int32_t row = first; row < first + 8; ++row) {
        banks.insert(implicit_gemm::place_of_unit(row, unit) % 128);
      }
      EXPECT_EQ(banks.size(), 8u);
    }
  }
}

TEST(ImplicitGemmPlan, SaysWhyItDeclines) {
  const auto reason = [](const Conv2dProblem& p, Direction direction = Direction::kFprop,
                         bool tf32 = true) {
    return implicit_gemm::declines(p, direction, h200(), tf32);
  };
  const Conv2dProblem taken = channels_last_problem("n2c64h8w8 k64r3s3");
  EXPECT_EQ(reason(taken), "");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3 groups=8")), "");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3 groups=16")),
            "a group has fewer than 8 channels");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3 groups=16", DataType::kFloat32)), "");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3", DataType::kFloat32),
                   Direction::kDgrad, false),
            "float32 may not be rounded to TF32");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3", DataType::kFloat64)),
            "the element type is float64");
  EXPECT_EQ(reason(taken, Direction::kWgrad), "it is a weight gradient");
  EXPECT_EQ(reason(channels_last_problem("n1c1h30000w20000 k1r30000s10000")),
            "channels, rounded up, times taps are more than 2^30");
  Chip chip = h200();
  chip.compute_capability = 75;
  EXPECT_EQ(implicit_gemm::declines(taken, Direction::kFprop, chip, true),
            "the device's compute capability is 7.5, less than 8.0");
}

}  // namespace
}  // namespace haloconv::testing
