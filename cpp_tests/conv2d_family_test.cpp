// A family that is not in the list takes its part in a choice like those that are.
#include "conv2d/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "conv2d/choice.h"
#include "conv2d/families.h"
#include "conv2d/fastest_first.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

// Takes forward passes alone, and counts its launches in the result.
struct CountingPlan {
  static constexpr int64_t workspace_bytes = 96;
  double estimated_ms = 1e-6;
};

std::ostream& operator<<(std::ostream& os, const CountingPlan&) { return os << "fprop counting"; }

int asked = 0;

Answer ask(const Request& request) {
  ++asked;
  if (request.direction != Direction::kFprop) return {.declined = "it counts forward passes alone"};
  return {.plans = {std::make_shared<PlanOf<CountingPlan>>(request.problem, CountingPlan{})}};
}

void launch(const Plan& plan, const Operands& operands, CUstream_st*) {
  made_by_family<CountingPlan>(plan);
  ++*static_cast<int*>(operands.result);
}

constexpr Family kCounting{.name = "counting", .group = "test", .ask = &ask, .launch = &launch};

std::vector<const Family*> with_counting() {
  std::vector<const Family*> all(families().begin(), families().end());
  all.insert(all.begin(), &kCounting);
  return all;
}

Request request(Direction direction) {
  return {.problem = parse_shape("a n8c32h64w64 k32r3s3").problem, .direction = direction};
}

std::string text_of(const Choice& choice) {
  std::ostringstream text;
  text << choice;
  return text.str();
}

TEST(Family, IsAskedChosenExplainedAndLaunched) {
  asked = 0;
  const Choice choice = choose(request(Direction::kFprop), {}, with_counting());
  EXPECT_EQ(asked, 1);
  ASSERT_FALSE(choice.candidates.empty());
  const Candidate& chosen = choice.candidates.front();
  ASSERT_EQ(chosen.family, &kCounting);
  EXPECT_EQ(chosen.plan->workspace_bytes, 96);
  EXPECT_EQ(text_of(choice).find("implementation: test, counting\n"), 0u) << text_of(choice);
  EXPECT_NE(text_of(choice).find("  test, counting: expected 1e-06 ms, fprop counting\n"),
            std::string::npos)
      << text_of(choice);
  int launches = 0;
  chosen.family->launch(*chosen.plan, {.result = &launches}, nullptr);
  EXPECT_EQ(launches, 1);
}

TEST(Family, DeclinesWithItsReason) {
  const Choice choice = choose(request(Direction::kDgrad), {}, with_counting());
  ASSERT_FALSE(choice.candidates.empty());
  for (const Candidate& candidate : choice.candidates) EXPECT_NE(candidate.family, &kCounting);
  EXPECT_NE(text_of(choice).find("  test, counting: declined, it counts forward passes alone\n"),
            std::string::npos)
      << text_of(choice);
}

TEST(Family, MustGiveAPlanOrAReason) {
  const Family silent{.name = "silent",
                      .group = "test",
                      .ask = [](const Request&) { return Answer{}; },
                      .launch = &launch};
  const Family* const list[] = {&silent};
  EXPECT_THROW(choose(request(Direction::kFprop), {}, list), std::logic_error);
}

TEST(Family, IsForcedByItsNameAndItsGroup) {
  const auto all = with_counting();
  for (const std::string_view forced : {"test", "counting"}) {
    const auto names = forceable_names(all);
    EXPECT_EQ(std::count(names.begin(), names.end(), forced), 1) << forced;
    const Choice choice = choose(request(Direction::kFprop), forced, all);
    ASSERT_EQ(choice.candidates.size(), 1u);
    EXPECT_EQ(choice.candidates.front().family, &kCounting);
    EXPECT_TRUE(choose(request(Direction::kDgrad), forced, all).candidates.empty());
  }
  asked = 0;
  choose(request(Direction::kFprop), "generic", all);
  EXPECT_EQ(asked, 0);
}

TEST(Family, RunsNoPlanOfAnother) {
  const Answer generic = families().back()->ask(request(Direction::kFprop));
  ASSERT_FALSE(generic.plans.empty());
  EXPECT_THROW(kCounting.launch(*generic.plans.front(), {}, nullptr), std::logic_error);
}

// Copies of 16 bytes, which only aligned tensors allow, are no family's assumption.
TEST(Family, DeclinesUnalignedTensorsOrTakesThem) {
  Request unaligned = request(Direction::kFprop);
  unaligned.problem.type = DataType::kBFloat16;
  unaligned.problem.set_dense_strides(true);
  unaligned.is_aligned = false;
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
    unaligned.direction = direction;
    EXPECT_TRUE(choose(unaligned, "sm90").candidates.empty()) << direction;
    EXPECT_FALSE(choose(unaligned).candidates.empty()) << direction;
  }
}

TEST(Family, HasANameAndAReasonOrAPlan) {
  for (const Family* family : families()) {
    EXPECT_FALSE(family->name.empty());
    EXPECT_FALSE(family->group.empty());
    for (const char* file : {"edges", "networks", "transposed", "one_dimensional"}) {
      for (const Shape& shape : load_shapes(file)) {
        for (const Direction direction :
             {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
          const Answer answer = family->ask({.problem = shape.problem, .direction = direction});
          EXPECT_NE(answer.declined.empty(), answer.plans.empty()) << family->name << ' ' << shape;
        }
      }
    }
  }
}

// A family that need not look for more than two plans finds the same two.
TEST(Family, WhoTakesFewPlansGetsTheFastest) {
  constexpr size_t kFew = 2;
  for (const Shape& shape : load_shapes("networks")) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Request request{.problem = shape.problem, .direction = Direction::kWgrad, .with_bias = true};
      request.problem.type = type;
      for (const Family* family : families()) {
        request.most_plans = kFew;
        const Answer few = family->ask(request);
        request.most_plans = Request{}.most_plans;
        const Answer all = family->ask(request);
        EXPECT_EQ(few.declined, all.declined);
        ASSERT_GE(few.plans.size(), std::min(kFew, all.plans.size()));
        for (size_t i = 0; i < std::min(kFew, all.plans.size()); ++i) {
          EXPECT_EQ(few.plans[i]->text(), all.plans[i]->text()) << family->name << ' ' << shape;
        }
      }
    }
  }
}

TEST(Family, SortsPlansByTheirEstimatesAndKeepsTheOrderOfTies) {
  struct Numbered {
    double estimated_ms;
    int number;
  };
  std::vector<Numbered> plans = {{3, 0}, {1, 1}, {2, 2}, {1, 3}, {3, 4}, {1, 5}};
  sort_fastest_first(plans);
  std::vector<int> numbers;
  for (const Numbered& plan : plans) numbers.push_back(plan.number);
  EXPECT_EQ(numbers, (std::vector<int>{1, 3, 5, 2, 0, 4}));
}

}  // namespace
}  // namespace haloconv::testing
