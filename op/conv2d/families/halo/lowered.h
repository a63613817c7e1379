// All that a launch of a plan needs but pointers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/pack_arguments.h"
#include "conv2d/families/halo/zero_arguments.h"

namespace haloconv::halo {

struct Lowered {
  std::vector<Launch> launches;
  std::vector<PackArguments> packs;
  std::optional<ZeroArguments> zeros;
  int64_t counters_at;  // bytes of the workspace before the launches' counters of tiles
};

// Of a flattened() problem. Throws std::logic_error where the kernels have no tiles of the plan.
Lowered lower(const Conv2dProblem& problem, const Plan& plan);

}  // namespace haloconv::halo
