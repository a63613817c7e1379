// What the launches of all tiles for a problem have in common, so that a planner which tries many
// works it out once.
#pragma once

#include <vector>

#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

struct OrderedPhases {
  OrderedPhases(const Conv2dProblem& problem, Direction direction);

  Gather gather;
  // Those with pixels, the longest first, so that short ones fill the last wave.
  std::vector<Phase> phases;
};

// Gives what make_launches() in arguments.h does, which works out the phases itself.
std::vector<Launch> make_launches(const Conv2dProblem& problem, Direction direction,
                                  const OrderedPhases& ordered, const Tile& tile,
                                  int multiprocessors);

}  // namespace haloconv::sm90::channels_last
