#include "conv2d/families/halo/lowered.h"

#include <stdexcept>

namespace haloconv::halo {

Lowered lower(const Conv2dProblem& problem, const Plan& plan) {
  Lowered lowered{.launches = make_launches(problem, plan),
                  .packs = {},
                  .zeros = make_zero_arguments(problem, plan.direction),
                  .counters_at = 0};
  if (lowered.launches.empty()) {
    throw std::logic_error("haloconv: the halo kernels have no tiles of this plan");
  }
  lowered.packs = make_pack_arguments(problem, plan, lowered.launches);
  lowered.counters_at = packed_bytes(lowered.launches);
  return lowered;
}

}  // namespace haloconv::halo
