#include "conv2d/once.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace haloconv::testing {
namespace {

TEST(Once, MakesItsValueOnceAndTriesAgainAfterAnError) {
  const Once<int> once;
  int calls = 0;
  EXPECT_THROW(once.get([&]() -> int {
    ++calls;
    throw std::runtime_error("not yet");
  }),
               std::runtime_error);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(once.get([&] { return ++calls; }), 2);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace haloconv::testing
