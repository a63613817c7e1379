// The generic kernels' index arithmetic, on the host.
#include "conv2d/geometry/geometry.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

TEST(FastDiv, EqualsDivision) {
  std::mt19937 engine(1);
  std::vector<int64_t> divisors = {1, 2, 3, 5, 7, 641, 65535, 65536, 65537, (1 << 30) - 1, 1 << 30};
  for (int i = 0; i < 2000; ++i) divisors.push_back(engine() % (1 << 30) + 1);
  for (const int64_t d : divisors) {
    const FastDiv div(d);
    std::vector<int64_t> numbers = {0, 1, d - 1, d, d + 1, INT32_MAX - 1, INT32_MAX};
    for (int i = 0; i < 100; ++i) numbers.push_back(engine() % INT32_MAX);
    const int64_t multiple = INT32_MAX / d * d;
    numbers.push_back(multiple);
    numbers.push_back(multiple - 1);
    for (const int64_t n : numbers) {
      ASSERT_EQ(div.quotient(static_cast<int32_t>(n)), n / d) << n << " / " << d;
    }
  }
}

TEST(FastDiv, OfAnythingButAPositive32BitDivisorIsAnError) {
  for (const int64_t d : {int64_t{0}, int64_t{-1}, int64_t{INT32_MIN}, int64_t{1} << 31}) {
    try {
      const FastDiv div(d);
      ADD_FAILURE() << "no error for " << d << ", but " << div.divisor;
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(d)), std::string::npos);
    }
  }
  EXPECT_EQ(FastDiv(INT32_MAX).quotient(INT32_MAX), 1);
}

TEST(Narrow, KeepsWhatFitsAndNamesWhatDoesNot) {
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
    EXPECT_EQ(narrow(value), value);
  }
  for (const int64_t value : {int64_t{INT32_MAX} + 1, int64_t{INT32_MIN} - 1, int64_t{1} << 32}) {
    try {
      ADD_FAILURE() << "no error for " << value << ", but " << narrow(value);
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(value)), std::string::npos);
    }
  }
}

// A coordinate beyond 32 bits, which generic_declines() does not let pass.
TEST(Geometry, CoordinatesBeyond32BitsAreAnError) {
  EXPECT_THROW(fprop_phase(int64_t{1} << 32, 3, 1), std::logic_error);
  EXPECT_THROW(dgrad_axis(1, int64_t{1} << 32), std::logic_error);
}

// (output pixel, tap) that each source pixel meets, along one axis.
using Meetings = std::set<std::tuple<int64_t, int64_t, int64_t>>;

Meetings from_definition(int64_t in, int64_t out, int64_t taps, int64_t stride, int64_t dilation,
                         int64_t pad) {
  Meetings meetings;
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t at = i * stride - pad + tap * dilation;
      if (at >= 0 && at < in) meetings.insert({at, i, tap});
    }
  }
  return meetings;
}

// The same from dgrad's phases: every input pixel in one phase, each tap where the phase says.
TEST(Geometry, DgradPhasesMeetWhatTheDefinitionMeets) {
  for (int64_t in : {1, 4, 7, 13}) {
    for (int64_t taps : {1, 2, 3, 5}) {
      for (int64_t stride : {1, 2, 3, 4, 6, 15}) {
        for (int64_t dilation : {1, 2, 3, 4}) {
          for (int64_t pad : {0, 1, 5}) {
            const int64_t out = (in + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
            if (in + 2 * pad < dilation * (taps - 1) + 1) continue;
            const Axis axis = dgrad_axis(stride, dilation);
            Meetings meetings;
            std::set<int64_t> pixels;
            for (int64_t first = 0; first < std::min(stride, in); ++first) {
              const AxisPhase phase = dgrad_phase(in, taps, stride, dilation, pad, first);
              for (int64_t i = 0; i < phase.pixels; ++i) {
                const int64_t h = phase.first_pixel + i * axis.pixel_step;
                EXPECT_TRUE(pixels.insert(h).second);
                for (int64_t t = 0; t < phase.taps; ++t) {
                  const int64_t p =
                      phase.origin + i * axis.source_step + phase.first_shift + t * axis.shift_step;
                  const int64_t tap = phase.first_tap + t * axis.tap_step;
                  EXPECT_LT(tap, taps);
                  if (p >= 0 && p < out) meetings.insert({h, p, tap});
                }
              }
            }
            EXPECT_EQ(pixels.size(), static_cast<size_t>(in));
            EXPECT_EQ(*pixels.rbegin(), in - 1);
            EXPECT_EQ(meetings, from_definition(in, out, taps, stride, dilation, pad))
                << in << ' ' << taps << ' ' << stride << ' ' << dilation << ' ' << pad;
          }
        }
      }
    }
  }
}

TEST(Geometry, PhasesShareOutTheTaps) {
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem& p = shape.problem;
    int64_t pixels = 0;
    for (const Phase& phase : make_phases(p, Direction::kDgrad)) {
      pixels += phase.pixels;
      EXPECT_EQ(phase.reduction, p.group_k() * phase.h.taps * phase.w.taps);
    }
    EXPECT_EQ(pixels, p.n * p.h * p.w) << shape;
    const auto fprop = make_phases(p, Direction::kFprop);
    ASSERT_EQ(fprop.size(), 1u);
    EXPECT_EQ(fprop[0].pixels, p.n * p.p() * p.q()) << shape;
  }
}

// A stride far larger than the image must not make a phase for every residue.
TEST(Geometry, HugeStridesHaveNoMorePhasesThanPixels) {
  const Conv2dProblem p =
      parse_shape("a n1c1h2w3 k1r2s2 stride=100000,100000 pad=100000,100000,100000,100000").problem;
  EXPECT_EQ(phase_count(p, Direction::kDgrad), 6);
  EXPECT_EQ(make_phases(p, Direction::kDgrad).size(), 6u);
}

}  // namespace
}  // namespace haloconv::testing
