// The phase_pairs kernel followed on the host: windows as the copy engine puts them, each step's
// pixels and filter values by the numbers that the kernel is given, results where it writes them;
// held against the definition. Which thread has which, and the order of the packed filter, are not
// followed.
#include <gtest/gtest.h>

#include <limits>

#include "chip/known_chips.h"
#include "conv2d/families/phase_pairs/arguments.h"
#include "conv2d/families/phase_pairs/plan.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/families/phase_pairs/edge_shapes.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using namespace phase_pairs;

class Emulation {
 public:
  Emulation(const Conv2dProblem& p, const Plan& plan, const Values& source, const Values& filter)
      : p_(p), tile_(plan.tile), args_(*plan.arguments), source_(source), filter_(filter) {}

  Values run() {
    Values result(input_count(p_), std::numeric_limits<double>::quiet_NaN());
    for (int32_t index = 0; index < args_.tiles; ++index) {
      int32_t rest = index;
      const auto next = [&](const FastDiv& div) {
        const int32_t of = rest % div.divisor;
        rest /= div.divisor;
        return of;
      };
      const int32_t channel = next(args_.channel_tiles) * tile_.channels;
      const RowPhase& phase = args_.phase[next(args_.row_phases)];
      const int32_t column = next(args_.column_tiles) * tile_.columns;
      const int32_t row = next(args_.row_tiles) * tile_.rows;
      compute(phase, channel, column, row, rest * tile_.images, result);
    }
    return result;
  }

 private:
  void compute(const RowPhase& phase, int32_t channel, int32_t column, int32_t row, int32_t image,
               Values& result) {
    const Pattern& pattern = tile_.pattern;
    const int32_t pairs = tile_.columns * tile_.rows * tile_.images;
    std::vector<double> sums(size_t(pairs) * kPhases * tile_.channels, 0);
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      const std::vector<double> window = copy_window(
          column + args_.column_origin, row + phase.origin, chunk * args_.box[2], image);
      for (int32_t tap = 0; tap < phase.taps; ++tap) {
        EXPECT_EQ((column + args_.column_origin) % 4, 0);  // the copy engine's 16 bytes
        for (int eight = 0; eight < pattern.depth() / 8; ++eight) {
          for (int shift = 0; shift < pattern.shifts; ++shift) {
            for (int k = 0; k < 8; ++k) {
              const int32_t word =
                  args_.columns_before + eight * (args_.image_words / (pattern.depth() / 8)) +
                  shift + tap * args_.row_words + k % 4 * args_.k_words + k / 4 * args_.half_words;
              const int32_t source = (chunk * pattern.depth() / 8 + eight) * 8 +
                                     (args_.interleaves ? k % 4 * 2 + k / 4 : k);
              if (source >= p_.k) continue;
              for (int of = 0; of < kPhases; ++of) {
                if (!pattern.serves(shift, of)) continue;
                const int64_t r = phase.first_r - tap * args_.step_r;
                const int64_t s = args_.first_s[of] - shift * args_.step_s;
                ASSERT_TRUE(r >= 0 && r < p_.r && s >= 0 && s < p_.s);
                for (int32_t pair = 0; pair < pairs; ++pair) {
                  const int32_t line = pair / tile_.columns;
                  const double pixel =
                      window.at(line / tile_.rows * args_.image_words +
                                line % tile_.rows * args_.row_words + pair % tile_.columns + word);
                  for (int32_t c = 0; c < std::min<int64_t>(tile_.channels, p_.c - channel); ++c) {
                    sums[(size_t(pair) * kPhases + of) * tile_.channels + c] +=
                        pixel * filter_[((source * p_.c + channel + c) * p_.r + r) * p_.s + s];
                  }
                }
              }
            }
          }
        }
      }
    }
    for (int32_t pair = 0; pair < pairs; ++pair) {
      const int32_t line = pair / tile_.columns;
      int32_t j = pair % tile_.columns + column, i = line % tile_.rows + row;
      const int32_t n = line / tile_.rows + image;
      if (args_.is_flat) {
        const int32_t flat = i * tile_.columns + j;
        i = flat / args_.flat_columns.divisor;
        j = flat % args_.flat_columns.divisor;
      }
      if (n >= p_.n || i >= phase.rows) continue;
      for (int of = 0; of < kPhases; ++of) {
        for (int32_t c = 0; c < std::min<int64_t>(tile_.channels, p_.c - channel); ++c) {
          if (2 * j + of >= p_.w) continue;
          double& at = result.at(
              ((int64_t{n} * p_.c + channel + c) * p_.h + phase.first_row + i * p_.stride_h) *
                  p_.w +
              2 * j + of);
          EXPECT_TRUE(std::isnan(at)) << "written twice";
          at = sums[(size_t(pair) * kPhases + of) * tile_.channels + c];
        }
      }
    }
  }

  std::vector<double> copy_window(int32_t x, int32_t y, int32_t channel, int32_t image) const {
    std::vector<double> window;
    const int64_t* const extents = args_.source_extents;
    const int64_t* const strides = args_.source_strides;
    for (int32_t n = image; n < image + args_.box[3]; ++n) {
      for (int32_t k = channel; k < channel + args_.box[2]; ++k) {
        for (int32_t i = y; i < y + args_.box[1]; ++i) {
          for (int32_t j = x; j < x + args_.box[0]; ++j) {
            const bool inside = n >= 0 && n < extents[3] && k >= 0 && k < extents[2] && i >= 0 &&
                                i < extents[1] && j >= 0 && j < extents[0];
            window.push_back(
                inside ? source_.at(n * strides[3] + k * strides[2] + i * strides[1] + j) : 0);
          }
        }
      }
    }
    return window;
  }

  const Conv2dProblem& p_;
  const Tile& tile_;
  const Arguments& args_;
  const Values &source_, &filter_;
};

class PhasePairsEmulation : public ::testing::TestWithParam<TypedShape> {};

TEST_P(PhasePairsEmulation, IsTheDefinition) {
  Conv2dProblem p = GetParam().problem;
  p.set_dense_strides(false);
  ASSERT_EQ(hopper_rows_decline(p, Direction::kDgrad, h200()), "");
  ASSERT_EQ(declines(p), "");
  const Values source = small_integers(output_count(p), 1),
               filter = small_integers(filter_count(p), 2);
  const Values expected = reference_dgrad(p, source, filter);
  const std::vector<Plan> plans = make_plans(p, h200());
  ASSERT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    ASSERT_EQ(Emulation(p, plan, source, filter).run(), expected) << p << " | " << plan;
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, PhasePairsEmulation, ::testing::ValuesIn(phase_pairs_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
