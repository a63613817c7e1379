// Products that are turned around: the filter lies in shared memory as the copy engine puts it, and
// what lanes read from there is the first operand of the matrix instruction, of the channels whose
// sums they write. Nothing is read from a bank at once with something else.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include "conv2d/families/channels_last/operands.h"
#include "conv2d/families/channels_last/turned.h"
#include "conv2d/families/channels_last/turned_rows.h"
#include "cpp_tests/shared_memory_emulation.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last;

constexpr int kLanes = 32, kWarps = 4, kDepth = kStageRowBytes / 4, kDeep = kOperandBytes / 4;

// What is at (channel, depth) of a filter.
int32_t filter(int32_t channel, int32_t k) { return channel * 1000 + k; }

// A stage's filter, as words.
template <bool kDgrad>
std::vector<int32_t> copied(const Tile& tile) {
  const TurnedPart part(tile);
  std::vector<int32_t> memory(tile.channels * kDepth, -1);
  for (int32_t i = 0; i < tile.channels * kDepth; ++i) {
    const int32_t box = i / (kTurnedBoxRows * kDepth), row = i / kDepth % kTurnedBoxRows;
    const int32_t column = i % kDepth, each = part.thread_channels();
    memory.at(swizzled(i * 4, kStageRowBytes) / 4) =
        kDgrad ? filter(box * 32 + column, row)
               : filter(box / each * part.channels + box % each + row * each, column);
  }
  return memory;
}

// What the lanes of a warp read at once, by the address of each, of so many words.
void expect_different_banks(const std::vector<uint32_t>& addresses, int32_t words) {
  std::map<uint32_t, int> lanes_of_bank;
  for (const uint32_t at : addresses) {
    for (int32_t i = 0; i < words; ++i) EXPECT_LE(++lanes_of_bank[at / 4 % 32 + i], 1) << at;
  }
}

// Words of the first operand of all blocks, in the order of the lane's channels: those of its
// channels at its own place of the depth, then half a step further.
template <int kBlocks>
std::vector<std::array<std::vector<int32_t>, 2>> operands_of(TurnedRows<kBlocks, true>,
                                                             const std::vector<int32_t>& memory,
                                                             uint32_t first, int32_t warp,
                                                             int step) {
  using Rows = TurnedRows<kBlocks, true>;
  constexpr int kWords = 2 * kBlocks, kAtOnce = kLanes * 4 / (4 * kWords);
  std::vector<std::array<std::vector<int32_t>, 2>> operands(kLanes);
  for (int half = 0; half < 2; ++half) {
    for (int32_t lane = 0; lane < kLanes; lane += kAtOnce) {
      std::vector<uint32_t> addresses;
      for (int32_t i = lane; i < lane + kAtOnce; ++i) {
        const uint32_t at = Rows::at_step(first + Rows::start_of(warp, i), step);
        addresses.push_back(half == 0 ? at : Rows::further(at));
        for (int32_t j = 0; j < kWords; ++j) {
          operands[i][half].push_back(memory.at(addresses.back() / 4 + j));
        }
      }
      expect_different_banks(addresses, kWords);
    }
  }
  return operands;
}
template <int kBlocks>
std::vector<std::array<std::vector<int32_t>, 2>> operands_of(TurnedRows<kBlocks, false>,
                                                             const std::vector<int32_t>& memory,
                                                             uint32_t first, int32_t warp,
                                                             int step) {
  using Rows = TurnedRows<kBlocks, false>;
  std::vector<std::array<std::vector<int32_t>, 2>> operands(kLanes);
  for (int32_t block = 0; block < kBlocks; ++block) {
    for (int32_t matrix = 0; matrix < 4; ++matrix) {
      std::vector<uint32_t> addresses;
      for (int32_t row = 0; row < 8; ++row) {
        addresses.push_back(Rows::at_step(first + Rows::start_of(warp, matrix * 8 + row), step) +
                            block * 2 * kTurnedBoxBytes);
      }
      expect_different_banks(addresses, 4);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        operands[lane][matrix / 2].push_back(memory.at(addresses[lane / 4] / 4 + lane % 4));
      }
    }
  }
  return operands;
}

template <int kBlocks, bool kDgrad>
void check(const Tile& tile) {
  using Rows = TurnedRows<kBlocks, kDgrad>;
  const TurnedPart part(tile);
  ASSERT_EQ(part.blocks, kBlocks);
  const std::vector<int32_t> memory = copied<kDgrad>(tile);
  std::vector<int32_t> channels;
  for (int32_t group = 0; group < tile.channels / part.channels; ++group) {
    const int32_t first = group * part.channels;
    for (int32_t warp = 0; warp < kWarps; ++warp) {
      for (int step = 0; step < kDepth / kDeep; ++step) {
        const auto operands = operands_of(Rows{}, memory, first * kStageRowBytes, warp, step);
        for (int32_t lane = 0; lane < kLanes; ++lane) {
          const int32_t channel = first + Rows::channel_of(warp, lane);
          for (int half = 0; half < 2; ++half) {
            for (int32_t j = 0; j < part.thread_channels(); ++j) {
              const int32_t k = step * kDeep + half * kDeep / 2 + lane % 4;
              EXPECT_EQ(operands[lane][half][j], filter(channel + j, k));
              if (step == 0 && half == 0 && lane % 4 == 0) channels.push_back(channel + j);
            }
          }
        }
      }
    }
  }
  std::vector<int32_t> all(tile.channels);
  std::iota(all.begin(), all.end(), 0);
  std::ranges::sort(channels);
  EXPECT_EQ(channels, all);
}

TEST(ChannelsLastTurned, LanesFindTheFilterOfTheirChannels) {
  for (const Tile& tile : kTurnedTiles) {
    if (TurnedPart(tile).blocks == 2) {
      check<2, true>(tile);
      check<2, false>(tile);
    } else {
      check<1, true>(tile);
      check<1, false>(tile);
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
