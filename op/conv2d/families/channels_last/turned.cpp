#include "conv2d/families/channels_last/turned.h"

#include <algorithm>
#include <utility>

namespace haloconv::sm90::channels_last {

std::optional<TurnedLaunch> make_turned_launch(const Conv2dProblem& problem, Direction direction,
                                               const OrderedPhases& phases, const Tile& tile,
                                               int multiprocessors) {
  if (!is_turned(tile, direction == Direction::kDgrad)) return std::nullopt;
  TurnedLaunch turned{make_launches(problem, direction, phases, tile, multiprocessors)};
  for (Launch& launch : turned.launches) {
    if (!launch.fits) return std::nullopt;
    // Results are not copied from shared memory, and no blocks share it, so that stages have all.
    launch.copies_results = false;
    launch.args.stages = std::min(kMaxStages, kMostStageBytes / stage_bytes(tile));
  }
  return turned;
}

}  // namespace haloconv::sm90::channels_last
