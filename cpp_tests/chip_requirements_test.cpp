#include "chip/requirements.h"

#include <gtest/gtest.h>

namespace haloconv::testing {
namespace {

TEST(Requirements, ADriverOfTheSameMajorVersionServes) {
  EXPECT_EQ(lack_of_driver(13000, 13020), "");
  EXPECT_EQ(lack_of_driver(13020, 13000), "");
  EXPECT_EQ(lack_of_driver(14000, 13000), "");
  EXPECT_EQ(lack_of_driver(13000, 12080), "");
  EXPECT_EQ(lack_of_driver(12080, 13000),
            "the driver is for CUDA 12.8, but the kernels need one for CUDA 13 or newer");
}

TEST(Requirements, Cuda13CompilesForNoChipBefore75) {
  EXPECT_EQ(lack_of_capability(75, 13000), "");
  EXPECT_EQ(lack_of_capability(120, 13020), "");
  EXPECT_EQ(lack_of_capability(70, 12080), "");
  EXPECT_EQ(lack_of_capability(70, 13000),
            "the compute capability is 7.0, but the kernels need 7.5 or newer");
}

}  // namespace
}  // namespace haloconv::testing
