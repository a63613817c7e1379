// How blocks share a tensor in batch norm. Needs no GPU.
#include <gtest/gtest.h>

#include "batch_norm/plan.h"

namespace haloconv::batch_norm {
namespace {

// Each row and channel of the tensor must be one block's.
void expect_covers(const Plan& plan) {
  EXPECT_EQ(int64_t{plan.slices} * plan.slice_channels(), plan.channels);
  EXPECT_GE(plan.chunks * plan.chunk_rows, plan.rows);
  EXPECT_LT((plan.chunks - 1) * plan.chunk_rows, plan.rows) << "a chunk without rows";
  EXPECT_LE(plan.lanes * plan.slice_units, kThreads);
  EXPECT_GE(plan.lanes, 1);
}

TEST(BatchNormPlan, CoversTheTensorByBlocksThatRunAtOnce) {
  for (const int multiprocessors : {1, 16, 108, 132}) {
    for (const int64_t rows : {1, 2, 31, 512, 3136, 200704}) {
      for (int64_t channels = kUnit; channels <= 2560; channels += kUnit) {
        const auto plan = make_plan(rows, channels, multiprocessors);
        if (!plan) continue;
        SCOPED_TRACE(::testing::Message()
                     << rows << " rows of " << channels << " on " << multiprocessors);
        expect_covers(*plan);
        EXPECT_LE(plan->blocks(), multiprocessors);
      }
    }
  }
}

TEST(BatchNormPlan, TakesTheLayersOfNetworks) {
  for (const int64_t channels : {16,  24,  32,  40,  64,  80,  96,   112,  128,  144, 192,
                                 240, 256, 320, 480, 512, 672, 1024, 1152, 1280, 2048}) {
    EXPECT_TRUE(make_plan(3136, channels, 132)) << channels;
  }
}

TEST(BatchNormPlan, DeclinesWhatHasNoWholeUnitsOrNoFittingSlice) {
  EXPECT_FALSE(make_plan(3136, 60, 132));
  EXPECT_FALSE(make_plan(3136, 8 * 131, 132)) << "slices of one unit waste most of each access";
  EXPECT_FALSE(make_plan(0, 64, 132));
}

}  // namespace
}  // namespace haloconv::batch_norm
