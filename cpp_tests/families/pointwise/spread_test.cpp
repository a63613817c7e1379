// Transposed convolutions whose filter is as large as its stride are products of one tap.
#include <gtest/gtest.h>

#include "conv2d/families/pointwise/spread.h"
#include "cpp_tests/families/pointwise/spread_shapes.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using pointwise::one_tap_of;
using pointwise::spread_of;

Conv2dProblem problem_of(const std::string& text, DataType type = DataType::kBFloat16) {
  Conv2dProblem problem = parse_shape("a " + text).problem;
  problem.type = type;
  return problem;
}

TEST(Sm90PointwiseSpread, IsAProductOfOneTap) {
  for (const char* text : kSpreadShapes) {
    const Conv2dProblem p = problem_of(text);
    const auto spread = spread_of(p);
    ASSERT_TRUE(spread) << p;
    const Conv2dProblem product = one_tap_of(p);
    const Values source = small_integers(output_count(p), 1),
                 filter = small_integers(filter_count(p), 2);
    const Values expected = reference_dgrad(p, source, filter);
    const Values rows = reference_dgrad(product, source, filter);
    Values result(expected.size());
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t row = 0; row < product.c; ++row) {
        for (int64_t pixel = 0; pixel < product.w; ++pixel) {
          const int64_t line = row / 2, channel = line / spread->filter_rows;
          const int64_t h =
              pixel / spread->source_columns * spread->filter_rows + line % spread->filter_rows;
          const int64_t w = pixel % spread->source_columns * 2 + row % 2;
          result.at((n * p.c + channel) * p.h * p.w + h * spread->destination_h + w) =
              rows.at((n * product.c + row) * product.w + pixel);
        }
      }
    }
    EXPECT_EQ(result, expected) << p;
  }
}

TEST(Sm90PointwiseSpread, IsOfFiltersAsLargeAsTheirStride) {
  EXPECT_TRUE(spread_of(problem_of("n2c8h16w16 k16r2s2 stride=2,2")));
  EXPECT_FALSE(spread_of(problem_of("n2c8h17w16 k16r2s2 stride=2,2")));
  EXPECT_FALSE(spread_of(problem_of("n2c8h16w17 k16r2s2 stride=2,2")));
  EXPECT_FALSE(spread_of(problem_of("n2c8h16w16 k16r4s4 stride=2,2 pad=1,1,1,1")));
  EXPECT_FALSE(spread_of(problem_of("n2c8h16w16 k16r2s2 stride=2,2 groups=2")));
  EXPECT_FALSE(spread_of(problem_of("n2c8h18w18 k16r3s3 stride=3,3")));
  EXPECT_FALSE(spread_of(problem_of("n2c8h16w16 k16r1s1")));
  Conv2dProblem odd_rows = problem_of("n2c8h16w16 k16r2s2 stride=2,2");
  odd_rows.input.h += 1;
  EXPECT_FALSE(spread_of(odd_rows));
  Conv2dProblem channels_innermost = problem_of("n2c8h16w16 k16r2s2 stride=2,2");
  channels_innermost.set_dense_strides(true);
  EXPECT_FALSE(spread_of(channels_innermost));
}

}  // namespace
}  // namespace haloconv::testing
