// The halo planner in a hurry: what it passes over, and what is worked out once, changes no plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "chip/known_chips.h"
#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/lowered.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/families/halo/tiles.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using halo::Plan;

// Whether two plans are of one kind: they differ in splits and in how the tile lies alone.
bool are_alike(const Plan& a, const Plan& b) {
  return a.tile.width == b.tile.width && a.tile.instructions == b.tile.instructions &&
         a.tile.patches == b.tile.patches && a.tile.share == b.tile.share &&
         a.tile.copied == b.tile.copied &&
         halo::copies_lines(a.tile) == halo::copies_lines(b.tile) &&
         halo::is_flat(a.tile) == halo::is_flat(b.tile) && a.fold == b.fold &&
         a.fold_columns == b.fold_columns;
}

// As the definition has it, from all plans.
std::vector<Plan> best_of(const std::vector<Plan>& sorted, size_t count) {
  std::vector<Plan> firsts, others;
  for (const Plan& plan : sorted) {
    const bool is_first = std::none_of(firsts.begin(), firsts.end(),
                                       [&](const Plan& first) { return are_alike(plan, first); });
    const bool is_near = plan.estimated_ms <= 1.3 * sorted.front().estimated_ms;
    (is_first && is_near ? firsts : others).push_back(plan);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  firsts.resize(std::min(firsts.size(), count));
  return firsts;
}

// Calls check(problem, direction, tf32) for each type of each shape that the Hopper kernels take.
template <class Check>
void for_each_problem(std::initializer_list<const char*> files, Check check) {
  for (const char* file : files) {
    for (const Shape& shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
        for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
          Conv2dProblem p = shape.problem;
          p.type = type;
          if (!hopper_rows_decline(p, direction, h200()).empty()) continue;
          check(p, direction, true);
          if (type == DataType::kFloat32) check(p, direction, false);
        }
      }
    }
  }
}

TEST(HaloPlanning, TheBestPlansAreTheBestOfAll) {
  for_each_problem(
      {"reference", "edges", "layers"}, [](const Conv2dProblem& p, Direction direction, bool tf32) {
        const auto all = halo::make_plans(p, direction, h200(), tf32);
        for (const size_t count : {1, 3, 8}) {
          const auto best = halo::best_plans(p, direction, h200(), tf32, count);
          ASSERT_EQ(texts_of(best), texts_of(best_of(all, count))) << p << ' ' << direction;
        }
      });
}

// The tiles of one instance of the kernel follow each other.
TEST(HaloPlanning, TilesAreGroupedByInstance) {
  for (const bool precise : {false, true}) {
    std::vector<int> instances;
    for (const halo::Tile& tile : halo::tiles_of(precise)) {
      const int pixels = tile.images * tile.rows * tile.columns;
      EXPECT_EQ(halo::is_flat(tile), pixels < tile.width * tile.instructions);
      EXPECT_LE(pixels, tile.width * tile.instructions);
      const int instance = (tile.width * 10 + tile.instructions) * 2 + tile.copied;
      if (instances.empty() || instances.back() != instance) instances.push_back(instance);
    }
    EXPECT_EQ(instances.size(), precise ? 2u : 9u);
  }
}

// The planner's lists have each tile once, and what it takes from the tile before is the same.
TEST(HaloPlanning, TilesThatRepeatOthersHaveTheirBlocks) {
  for (const bool precise : {false, true}) {
    const auto& facts = halo::facts_of(precise);
    std::vector<int> listed(facts.size());
    for (const halo::TilesOfInstance& instance : halo::instances_of(precise)) {
      for (const auto* list : {&instance.sharing_channels, &instance.others}) {
        for (size_t i = 0; i < list->size(); ++i) {
          const halo::ListedTile& tile = (*list)[i];
          ++listed[tile.index];
          if (!tile.repeats) continue;
          ASSERT_GT(i, 0u);
          const halo::TileFacts &a = facts[tile.index], &b = facts[(*list)[i - 1].index];
          EXPECT_EQ(a.rows, b.rows);
          EXPECT_EQ(a.columns, b.columns);
          EXPECT_EQ(a.log_images, b.log_images);
          EXPECT_EQ(a.is_line, b.is_line);
          EXPECT_TRUE(a.suits_all);
        }
      }
    }
    EXPECT_EQ(listed, std::vector<int>(facts.size(), 1));
  }
}

TEST(HaloPlanning, OnlyTheBestPlansKeepWhatLaunchesNeed) {
  const Conv2dProblem p = parse_shape("a n2c16h20w20 k16r3s3 stride=2,2").problem;
  for (const Plan& plan : halo::make_plans(p, Direction::kDgrad, h200())) {
    EXPECT_EQ(plan.lowered, nullptr) << plan;
  }
  Plan plan = halo::best_plans(p, Direction::kDgrad, h200(), true, 8).front();
  ASSERT_NE(plan.lowered, nullptr);
  const auto lower = [&] { return halo::lower(p, plan); };
  const Plan copy = plan;
  const halo::Lowered& kept = plan.lowered->get(lower);
  EXPECT_EQ(&copy.lowered->get(lower), &kept);
  EXPECT_EQ(kept.launches.size(), halo::make_launches(p, plan).size());
  EXPECT_EQ(kept.counters_at, halo::packed_bytes(kept.launches));
  EXPECT_FALSE(kept.packs.empty());
  halo::set_stages(p, 2, plan);
  EXPECT_EQ(plan.lowered, nullptr);
}

TEST(HaloPlanning, AnEmptyTensorIsAnError) {
  Conv2dProblem p = parse_shape("a n2c16h20w20 k16r3s3").problem;
  p.n = 0;
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    EXPECT_THROW(halo::make_plans(p, direction, h200()), std::logic_error);
  }
}

TEST(HaloPlanning, LoweringAPlanWithoutTilesIsAnError) {
  const Conv2dProblem p = parse_shape("a n1c8h200w200 k8r60s60 dil=3,3").problem;
  EXPECT_THROW(halo::lower(p, Plan{}), std::logic_error);
}

// What follows from the stages, and that the text says it.
TEST(HaloPlanning, ChunksAheadArePartOfThePlan) {
  const Conv2dProblem p = parse_shape("a n1c64h14w14 k64r3s3").problem;
  Plan plan;
  halo::set_stages(p, 8, plan);  // 8 chunks
  EXPECT_EQ(plan.chunks_ahead, 4);
  EXPECT_EQ(plan.fused_chunks_ahead, 4);
  halo::set_stages(p, 4, plan);
  EXPECT_EQ(plan.chunks_ahead, 3);
  EXPECT_EQ(plan.fused_chunks_ahead, 2);
  EXPECT_NE(text_of(plan).find(" chunks_ahead=3 (2 fused)"), std::string::npos) << text_of(plan);
  plan.splits = 4;
  halo::set_stages(p, 4, plan);
  EXPECT_EQ(plan.chunks_ahead, 1);
  EXPECT_NE(text_of(plan).find(" chunks_ahead=1 workspace"), std::string::npos) << text_of(plan);
  plan.tile.width = 104;
  EXPECT_NE(text_of(plan).find(" resident weights"), std::string::npos) << text_of(plan);
}

}  // namespace
}  // namespace haloconv::testing
