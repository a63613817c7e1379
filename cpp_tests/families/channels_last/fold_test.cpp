// dgrad of filters as wide as their stride, folded: the same sums in the same memory.
#include "conv2d/families/channels_last/fold.h"

#include <gtest/gtest.h>

#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using sm90::channels_last::columns_of_fold;
using sm90::channels_last::folded;

Conv2dProblem problem_of(const std::string& text) {
  Conv2dProblem problem = parse_shape("a " + text).problem;
  problem.set_dense_strides(true);
  return problem;
}

// The place in memory of each value by (n, c, h, w).
std::vector<size_t> places(const Strides& strides, int64_t n, int64_t c, int64_t h, int64_t w) {
  std::vector<size_t> at;
  for (int64_t i = 0; i < n * c * h * w; ++i) {
    at.push_back(static_cast<size_t>(i / (c * h * w) * strides.n + i / (h * w) % c * strides.c +
                                     i / w % h * strides.h + i % w * strides.w));
  }
  return at;
}

Values in_memory(const std::vector<size_t>& at, const Values& values) {
  Values memory(values.size());
  for (size_t i = 0; i < at.size(); ++i) memory.at(at[i]) = values[i];
  return memory;
}

Values from_memory(const std::vector<size_t>& at, const Values& memory) {
  Values values;
  for (const size_t place : at) values.push_back(memory.at(place));
  return values;
}

TEST(ChannelsLastFold, IsTheSameInMemory) {
  for (const char* text :
       {"n2c8h16w20 k24r2s2 stride=2,2", "n2c16h9w18 k16r3s3 stride=3,3",
        "n2c4h1w32 k16r1s4 stride=1,4", "n2c24h15w16 k8r3s2 stride=2,2 pad=1,1,0,0"}) {
    const Conv2dProblem p = problem_of(text);
    const int64_t columns = columns_of_fold(p, Direction::kDgrad);
    ASSERT_EQ(columns, p.s) << p;
    const Conv2dProblem f = folded(p, columns);
    EXPECT_EQ(f.s, 1) << f;
    EXPECT_EQ(f.q(), p.q()) << f;
    const Values source = small_integers(output_count(p), 1),
                 filter = small_integers(filter_count(p), 2);
    const Values filter_of_fold =
        from_memory(places(f.filter, f.k, f.c, f.r, f.s),
                    in_memory(places(p.filter, p.k, p.c, p.r, p.s), filter));
    EXPECT_EQ(
        in_memory(places(f.input, f.n, f.c, f.h, f.w), reference_dgrad(f, source, filter_of_fold)),
        in_memory(places(p.input, p.n, p.c, p.h, p.w), reference_dgrad(p, source, filter)))
        << p;
  }
}

TEST(ChannelsLastFold, IsOfDenseTensorsAndFiltersAsWideAsTheirStride) {
  const auto is_folded = [](const Conv2dProblem& p, Direction direction = Direction::kDgrad) {
    return columns_of_fold(p, direction) > 1;
  };
  const Conv2dProblem taken = problem_of("n2c8h16w16 k16r2s2 stride=2,2");
  EXPECT_TRUE(is_folded(taken));
  EXPECT_FALSE(is_folded(taken, Direction::kFprop));
  EXPECT_FALSE(is_folded(problem_of("n2c8h16w17 k16r2s2 stride=2,2")));
  EXPECT_FALSE(is_folded(problem_of("n2c8h16w16 k16r4s4 stride=2,2 pad=1,1,1,1")));
  EXPECT_FALSE(is_folded(problem_of("n2c8h18w18 k16r2s2 stride=3,3")));
  EXPECT_FALSE(is_folded(problem_of("n2c8h16w16 k16r1s1")));
  EXPECT_FALSE(is_folded(problem_of("n2c8h16w16 k16r2s2 stride=2,2 groups=2")));
  Conv2dProblem apart = taken;
  apart.input.w += 8;
  EXPECT_FALSE(is_folded(apart));
}

}  // namespace
}  // namespace haloconv::testing
