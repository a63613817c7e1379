#include "conv2d/families/channels_last/splits.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

std::optional<SplitLaunch> make_split_launch(const Launch& launch, const Tile& tile, int64_t splits,
                                             int multiprocessors) {
  constexpr int64_t kLeastStages = 4;
  if (launch.args.phases != 1) return std::nullopt;
  const TilePhase& phase = launch.args.phase[0];
  const int64_t stages =
      int64_t{phase.taps_h} * phase.taps_w * ceil_div(launch.args.channels, tile.depth);
  const int64_t of_split = std::max(kLeastStages, ceil_div(stages, splits));
  const int64_t count = ceil_div(stages, of_split);
  const int64_t tiles = count * launch.args.tiles;
  if (count < 2 || tiles > INT32_MAX) return std::nullopt;
  SplitLaunch split{.launch = launch};
  SplitArguments& args = split.args;
  args.args = launch.args;
  args.args.stages = static_cast<int32_t>(
      std::min<int64_t>(kMaxStages, stage_room(tile, tiles, multiprocessors) / stage_bytes(tile)));
  args.splits = static_cast<int32_t>(count);
  args.split_stages = static_cast<int32_t>(of_split);
  args.taps_w = FastDiv(phase.taps_w);
  args.tiles = FastDiv(launch.args.tiles);
  return split;
}

}  // namespace haloconv::sm90::channels_last
