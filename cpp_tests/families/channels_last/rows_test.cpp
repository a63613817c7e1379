// Plans whose results have their rows innermost: where there are such, and where they write. No GPU
// is needed.
#include "conv2d/families/channels_last/rows.h"

#include <gtest/gtest.h>

#include <set>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last/plan.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last;

Conv2dProblem with_rows_of_result(const char* text, DataType type = DataType::kFloat32) {
  Conv2dProblem p = channels_last_problem(text, type);
  p.output = nchw_strides(p.k, p.p(), p.q());
  return p;
}

TEST(ChannelsLastRows, AreOfForwardPassesInFloat32) {
  const char* const shape = "n2c32h9w11 k64r3s3";
  EXPECT_TRUE(writes_rows(with_rows_of_result(shape), Direction::kFprop));
  EXPECT_FALSE(writes_rows(with_rows_of_result(shape), Direction::kDgrad));
  EXPECT_FALSE(writes_rows(with_rows_of_result(shape, DataType::kBFloat16), Direction::kFprop));
  EXPECT_FALSE(writes_rows(channels_last_problem(shape, DataType::kFloat32), Direction::kFprop));
  Conv2dProblem apart = with_rows_of_result(shape);
  apart.output.h += 1;
  EXPECT_FALSE(writes_rows(apart, Direction::kFprop));
}

// Where a kernel writes, as rows_kernel.cuh has it.
TEST(ChannelsLastRows, WriteEachResultOnce) {
  for (const char* text : {"n2c72h9w11 k136r3s3 pad=1,1,1,1", "n1c512h8w8 k64r1s1",
                           "n16c256h1w256 k512r1s16 stride=1,8 pad=0,0,4,4"}) {
    const Conv2dProblem p = with_rows_of_result(text);
    ASSERT_EQ(declines(p, Direction::kFprop, true, h200()), "");
    int splits = 0;
    for (const Plan& plan : make_plans(p, Direction::kFprop, h200())) {
      ASSERT_TRUE(std::holds_alternative<Kept<RowLaunch>>(plan.launch)) << text_of(p, plan);
      const RowArguments& args = std::get<Kept<RowLaunch>>(plan.launch)->args;
      const int64_t plane = p.p() * p.q(), results = p.n * p.k * plane;
      const int64_t count = args.shares.splits;
      splits += count > 1;
      EXPECT_EQ(plan.workspace_bytes, count > 1 ? count * results * 4 : 0) << text_of(p, plan);
      std::set<int64_t> places;
      for (int64_t split = 0; split < count; ++split) {
        for (int64_t n = 0; n < p.n; ++n) {
          for (int64_t k = 0; k < p.k; ++k) {
            const int64_t first =
                split * args.split_step + n * args.image_step + k * args.channel_step;
            places.insert(first);
            places.insert(first + plane - 1);
          }
        }
      }
      EXPECT_EQ(static_cast<int64_t>(places.size()), 2 * count * p.n * p.k);
      EXPECT_EQ(*places.rbegin(), count * results - 1);
    }
    EXPECT_EQ(splits > 0, adds_row_splits(p)) << p;
  }
  EXPECT_FALSE(adds_row_splits(with_rows_of_result("n2c72h9w11 k136r3s3 pad=1,1,1,1")));
  EXPECT_TRUE(adds_row_splits(with_rows_of_result("n1c512h8w8 k64r1s1")));
}

}  // namespace
}  // namespace haloconv::testing
