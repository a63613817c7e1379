#include "conv2d/families/generic/lowered.h"

#include <algorithm>
#include <span>

#include "conv2d/geometry/integers.h"

namespace haloconv::generic {

namespace {

std::vector<GatherLaunch> make_launches(std::span<const Phase> phases, const PackedShape& packed) {
  std::vector<GatherLaunch> launches;
  int64_t packed_rows = 0;
  for (size_t first = 0; first < phases.size(); first += kPhasesOfLaunch) {
    GatherLaunch& launch = launches.emplace_back();
    launch.phase_count =
        static_cast<int32_t>(std::min<size_t>(kPhasesOfLaunch, phases.size() - first));
    for (int32_t i = 0; i < launch.phase_count; ++i) {
      Phase& phase = launch.phases[i] = phases[first + static_cast<size_t>(i)];
      phase.first_tile = static_cast<int32_t>(launch.tiles);
      phase.packed_offset = packed_rows;
      launch.tiles += ceil_div(phase.pixels, packed.columns);
      packed_rows += round_up(phase.reduction, packed.step);
    }
  }
  return launches;
}

}  // namespace

Lowered lower(const Conv2dProblem& problem, const Plan& plan) {
  Lowered lowered;
  if (plan.direction == Direction::kWgrad) {
    lowered.wgrad = make_wgrad(problem, plan.with_bias);
    return lowered;
  }
  const std::vector<Phase> phases = make_phases(problem, plan.direction);
  lowered.gather = make_gather(problem, plan.direction);
  lowered.packed = packed_shape(problem, plan, phases);
  lowered.launches = make_launches(phases, lowered.packed);
  return lowered;
}

}  // namespace haloconv::generic
