#include "conv2d/families/halo/pack_arguments.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

namespace {

PackPhase make_phase(const Launch& launch) {
  const Arguments& args = launch.arguments;
  PackPhase phase{};
  phase.packed_at = launch.packed_at / 16;
  phase.packed_steps = args.packed_steps;
  phase.block_chunks = std::max(1, kPackSteps / args.taps);
  phase.blocks =
      static_cast<int32_t>(ceil_div(args.packed_steps, int64_t{args.taps} * phase.block_chunks));
  phase.taps = args.taps;
  phase.taps_s = args.w.taps;
  phase.filter_taps = (args.folded.columns ? launch.w : launch.h).taps;
  phase.first_r = launch.h.first_tap;
  phase.first_s = launch.w.first_tap;
  return phase;
}

PackArguments make_empty(const Gather& gather, const Fold& fold, const Arguments& args) {
  PackArguments pack{};
  pack.group = gather.filter_group;
  pack.row = gather.filter.n;
  pack.channel = gather.filter.c;
  pack.r = gather.filter.h;
  pack.s = gather.filter.w;
  pack.step_r = gather.axis_h.tap_step;
  pack.step_s = gather.axis_w.tap_step;
  pack.channels = args.channels;
  pack.rows = args.rows;
  pack.groups = args.groups;
  pack.row_groups = args.packed_row_groups();
  pack.folded = args.folded;
  pack.fold = fold;
  return pack;
}

}  // namespace

std::vector<PackArguments> make_pack_arguments(const Conv2dProblem& problem, const Plan& plan,
                                               const std::vector<Launch>& launches) {
  const Gather gather = make_gather(problem, plan.direction);
  const Fold fold = make_fold(plan.fold_columns ? gather.axis_w : gather.axis_h, plan.fold);
  std::vector<PackArguments> packs;
  int count = kPhasesOfLaunch;  // of the last pack's phases
  int64_t packed_at = -1;
  for (const Launch& launch : launches) {
    if (launch.packed_at == packed_at) continue;  // another part of the same phase
    packed_at = launch.packed_at;
    if (count == kPhasesOfLaunch) {
      packs.push_back(make_empty(gather, fold, launch.arguments));
      count = 0;
    }
    packs.back().phases[count++] = make_phase(launch);
  }
  packs.front().counter_count =
      static_cast<int32_t>((counter_bytes(launches.size()) + mark_bytes(fold.count)) / 4);
  return packs;
}

}  // namespace haloconv::halo
