#include "cpp_tests/plan_sample.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>

namespace haloconv::testing {
namespace {

// A plan of a family, of some kind and with some text.
struct SomePlan final : Plan {
  explicit SomePlan(int64_t of_kind, std::string says = "") : text(std::move(says)) {
    kind = of_kind;
  }
  void print(std::ostream& os) const override { os << text; }

  std::string text;
};

FamilyPlan some_plan(int64_t kind, std::string text = "") {
  return {families().front(), std::make_shared<SomePlan>(kind, std::move(text))};
}

// How many of so many alike are taken, then whether one of another kind is.
std::pair<int, bool> taken(const char* every, int count) {
  if (every == nullptr) {
    unsetenv("HALOCONV_EVERY_NTH_PLAN");
  } else {
    setenv("HALOCONV_EVERY_NTH_PLAN", every, 1);
  }
  PlanSample sample;
  unsetenv("HALOCONV_EVERY_NTH_PLAN");
  const FamilyPlan plan = some_plan(1), other = some_plan(2);
  int number = 0;
  for (int i = 0; i < count; ++i) number += sample.takes(plan) ? 1 : 0;
  return {number, sample.takes(other)};
}

TEST(PlanSample, TakesAllUnlessToldOtherwise) {
  EXPECT_EQ(taken(nullptr, 20), std::pair(20, true));
  EXPECT_EQ(taken("no number", 20), std::pair(20, true));
}

TEST(PlanSample, TakesTheFirstOfEachKindAndEveryNth) {
  EXPECT_EQ(taken("7", 20), std::pair(3, true));  // 0, 7, 14; number 20 is of another kind
}

TEST(PlanSample, KnowsOtherWaysOfOneKind) {
  setenv("HALOCONV_EVERY_NTH_PLAN", "100", 1);
  PlanSample sample;
  unsetenv("HALOCONV_EVERY_NTH_PLAN");
  const FamilyPlan plan = some_plan(1), boxes = some_plan(1, "boxes");
  EXPECT_TRUE(sample.takes(plan));
  EXPECT_FALSE(sample.takes(plan));
  EXPECT_TRUE(sample.takes(boxes));
  EXPECT_FALSE(sample.takes(boxes));
}

}  // namespace
}  // namespace haloconv::testing
