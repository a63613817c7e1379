// Which plans have a ring of the filter in shared memory: ring.h.
#include "conv2d/families/implicit_gemm/ring.h"

#include <gtest/gtest.h>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/plan.h"
#include "conv2d/geometry/channels_innermost.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::Arguments;
using implicit_gemm::Plan;

// Calls visit(plan, arguments) for all launches of the reference problems.
template <class Visit>
void for_launches(const Chip& chip, Visit visit) {
  for (const Shape& shape : load_shapes("reference")) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Conv2dProblem p = shape.problem;
      p.type = type;
      p.set_dense_strides(false);
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        for (const Plan& plan : implicit_gemm::make_plans(p, direction, chip, true)) {
          for (const Arguments& args : plan.launches) visit(plan, args);
        }
      }
    }
  }
}

TEST(ImplicitGemmRing, IsThereOnHopperAlone) {
  for (const KnownChip& known : known_chips()) {
    const Chip chip = chip_of(known.name);
    int rings = 0;
    for_launches(chip, [&](const Plan& plan, const Arguments& args) {
      if (args.ring_bytes == 0) return;
      ++rings;
      EXPECT_TRUE(takes_ring(plan.tile));
      EXPECT_EQ(args.windows.log_columns, implicit_gemm::kLogWideColumns);
    });
    EXPECT_EQ(rings > 0, chip.compute_capability == 90) << known.name;
  }
}

// As many blocks share a multiprocessor as without it, or all whose registers fit.
TEST(ImplicitGemmRing, LeavesRoomForOtherBlocks) {
  const Chip& chip = h200();
  for_launches(chip, [&](const Plan& plan, Arguments args) {
    if (args.ring_bytes == 0) return;
    const int with = implicit_gemm::shared_bytes(plan.tile, args);
    args.ring_bytes = 0;
    const int without = implicit_gemm::shared_bytes(plan.tile, args);
    for (int blocks = 1; blocks <= implicit_gemm::blocks_of(plan.tile); ++blocks) {
      const int64_t room = shared_room(chip, blocks);
      EXPECT_EQ(with <= room, without <= room) << blocks;
    }
  });
}

// Each step loads the pair of the step after it, of a window's whole steps the last too.
TEST(ImplicitGemmRing, HasPlacesForAStepBehindTheLast) {
  for (int32_t depths = 1; depths < 100; ++depths) {
    const int32_t last_pair = 2 * (depths / implicit_gemm::kStepDepths + 1);  // its first word
    EXPECT_LE(last_pair + 2, implicit_gemm::place_words(depths)) << depths;
  }
}

}  // namespace
}  // namespace haloconv::testing
