#include "conv2d/families/channels_last/staying.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

// All blocks go over the pixels together where that takes no more rounds: memory then sees whole
// rows of the results at about the same time. By itself another order made layers whose tensors
// the L2 cache does not hold take 1.05 to 1.3 times as long (an H200).
int32_t blocks_of_launch(int32_t tiles, int32_t channel_tiles, int32_t multiprocessors) {
  const int32_t blocks = std::min(tiles, multiprocessors), rows = blocks / channel_tiles;
  if (rows == 0) return blocks;
  const int64_t together = ceil_div(int64_t{tiles / channel_tiles}, int64_t{rows});
  return together <= ceil_div(int64_t{tiles}, int64_t{blocks}) ? rows * channel_tiles : blocks;
}

}  // namespace

std::optional<StayingLaunch> make_staying_launch(const Conv2dProblem& problem, Direction direction,
                                                 const OrderedPhases& phases, const Tile& tile,
                                                 int multiprocessors) {
  constexpr int kLeastStages = 4;
  if (problem.r * problem.s != 1 || phases.phases.size() != 1) return std::nullopt;
  std::vector<Launch> launches = make_launches(problem, direction, phases, tile, multiprocessors);
  if (launches.size() != 1 || !launches.front().fits) return std::nullopt;
  StayingLaunch staying{.launch = std::move(launches.front())};
  Launch& launch = staying.launch;
  Arguments& args = launch.args;
  if (args.phase[0].taps_h * args.phase[0].taps_w != 1) return std::nullopt;
  staying.filter_units = static_cast<int32_t>(ceil_div(args.channels, tile.depth));
  const int64_t source = int64_t{tile.pixels} * kStageRowBytes;
  const int64_t filter = int64_t{staying.filter_units} * tile.channels * kStageRowBytes;
  const auto stages = [&] {
    const int64_t room =
        launch.copies_results ? stage_room_beside_results(tile) : kMostAlternatingBytes;
    return std::min<int64_t>(kMaxStages, (room - filter) / source);
  };
  if (stages() < kLeastStages) launch.copies_results = false;
  if (stages() < kLeastStages) return std::nullopt;
  args.stages = static_cast<int32_t>(stages());
  staying.blocks = blocks_of_launch(args.tiles, args.channel_tiles.divisor, multiprocessors);
  return staying;
}

}  // namespace haloconv::sm90::channels_last
