// Descents of a team: that what a matrix load reads lies in all banks, that each result has one
// writer and each sector one instruction, wherever rows begin and end, and where there are teams.
#include "conv2d/families/implicit_gemm/team_descents/team_descents.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/plan.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::kUnitBytes;
using implicit_gemm::Plan;
using implicit_gemm::TeamMemory;

TEST(ImplicitGemmTeamDescents, PixelsAreInAllBanks) {
  constexpr int32_t kUnits = 128 / kUnitBytes;  // in all banks
  for (const int32_t bytes : {2, 4}) {
    const int32_t group = implicit_gemm::team_group(bytes);
    for (int32_t first = 0; first < 64; ++first) {
      for (int32_t block = 0; block < implicit_gemm::team_blocks(bytes); ++block) {
        std::set<int32_t> units;
        for (int32_t column = 0; column < 8; ++column) {
          const int32_t pixel = first + implicit_gemm::team_pixel(block, column, bytes);
          const int32_t place = implicit_gemm::team_place(pixel, bytes);
          units.insert(place % kUnits);
          // So that the next group's pixels lie as far behind.
          EXPECT_EQ(implicit_gemm::team_place(pixel + group, bytes), place + group);
        }
        EXPECT_EQ(units.size(), 8u) << first << ' ' << block;
      }
    }
  }
}

// The results that matrix instructions compute by a lane, of columns 2 * (lane % 4) and the next,
// are neighbours that fill 16 bytes.
TEST(ImplicitGemmTeamDescents, ResultsOfALaneAreNeighbours) {
  for (const int32_t bytes : {2, 4}) {
    for (int32_t lane = 0; lane < 4; ++lane) {
      for (int32_t i = 0; i < 16 / bytes; ++i) {
        EXPECT_EQ(implicit_gemm::team_pixel(i / 2, 2 * lane + i % 2, bytes), 16 / bytes * lane + i);
      }
    }
  }
}

// However far behind a sector a row begins, and wherever the source's column is.
TEST(ImplicitGemmTeamDescents, StageAllThatIsMet) {
  for (const int32_t bytes : {2, 4}) {
    const int32_t unit = kUnitBytes / bytes, sector = implicit_gemm::sector_elements(bytes);
    for (const int32_t pixels : {1, 3, 16, 100, 112, 1022, 1023, 1025}) {
      for (const int32_t teams : {1, 2, 5}) {
        const int32_t columns = implicit_gemm::team_columns(pixels, teams, bytes);
        EXPECT_EQ(columns % sector, 0);
        EXPECT_GE(columns * teams, pixels + sector - 1);
        const TeamMemory memory(columns, bytes);
        EXPECT_LE(memory.pixels, memory.places);
        for (int32_t column = 0; column < 2 * sector; ++column) {
          const int32_t first = (column - (sector - 1)) & -unit;  // staged
          EXPECT_GE(column - (sector - 1), first);
          EXPECT_LE(column + columns + implicit_gemm::kTeamTaps - 1, first + memory.pixels);
        }
      }
    }
  }
}

TEST(ImplicitGemmTeamDescents, WarpsHaveAllChannels) {
  std::set<int32_t> channels;
  for (int32_t warp = 0; warp < implicit_gemm::kTeamWarps; ++warp) {
    for (int32_t row = 0; row < 16; ++row) channels.insert(implicit_gemm::team_channel(warp, row));
  }
  EXPECT_EQ(channels.size(), 128u);
  EXPECT_EQ(*channels.rbegin(), 127);
}

std::shared_ptr<const implicit_gemm::Arguments> team_of(const std::string& text,
                                                        Direction direction = Direction::kFprop,
                                                        DataType type = DataType::kFloat32) {
  Conv2dProblem p = channels_last_problem(text, type);
  p.set_dense_strides(false);
  for (const Plan& plan : implicit_gemm::make_plans(p, direction, chip_of("NVIDIA H200"), true)) {
    if (plan.is_of_team) return plan.strips;
  }
  return nullptr;
}

TEST(ImplicitGemmTeamDescents, AreWhereTheSourceHasFewChannels) {
  EXPECT_TRUE(team_of("n16c16h1024w1024 k128r3s3"));
  EXPECT_TRUE(team_of("n16c16h1024w1024 k128r3s3", Direction::kFprop, DataType::kBFloat16));
  EXPECT_TRUE(team_of("n1c64h64w64 k16r3s3 pad=1,1,1,1", Direction::kDgrad));
  EXPECT_TRUE(team_of("n1c16h64w65 k128r3s3"));  // rows begin at words
  EXPECT_FALSE(team_of("n1c16h64w65 k128r3s3", Direction::kFprop, DataType::kBFloat16));
  EXPECT_FALSE(team_of("n1c17h64w64 k128r3s3"));
  EXPECT_FALSE(team_of("n1c16h64w64 k128r3s4"));
  EXPECT_FALSE(team_of("n1c16h64w64 k128r5s3"));
  EXPECT_FALSE(team_of("n1c16h64w64 k128r3s3 dil=2,1"));
  EXPECT_FALSE(team_of("n1c16h64w64 k128r3s3 stride=2,2"));
  // Eight channels of 16 bits whose planes begin at other places of a sector.
  EXPECT_FALSE(team_of("n1c16h5w64 k128r3s3 pad=0,0,0,1", Direction::kFprop, DataType::kFloat16));
}

TEST(ImplicitGemmTeamDescents, AreExpectedToBeFastestWhereResultsAreMost) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = channels_last_problem("n16c16h1024w1024 k128r3s3", type);
    p.set_dense_strides(false);
    const std::vector<Plan> plans =
        implicit_gemm::make_plans(p, Direction::kFprop, chip_of("NVIDIA H200"), true);
    EXPECT_TRUE(plans.front().is_of_team) << plans.front();
  }
}

}  // namespace
}  // namespace haloconv::testing
