#include "conv2d/families/implicit_gemm/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/families/implicit_gemm/costs.h"
#include "conv2d/geometry/channels_innermost.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm {

namespace {

// As many as fit beside the stages of all the blocks that a multiprocessor's registers take, or of
// fewer blocks where that leaves less than three, so that copies are two steps ahead. 0: not even
// one block has its least.
int stages_for(const Tile& tile, const Chip& chip) {
  constexpr int64_t kEnough = 3;
  const auto stages_of = [&](int blocks) {
    const int64_t room = shared_room(chip, blocks);
    if (shared_bytes(tile, kLeastStages) > room) return int64_t{0};
    return std::min<int64_t>(kMostStages, room / stage_bytes(tile));
  };
  int blocks = blocks_of(tile);
  while (blocks > 1 && stages_of(blocks) < kEnough) --blocks;
  return static_cast<int>(stages_of(blocks));
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction << " tile=" << plan.tile.pixels << 'x' << plan.tile.channels
            << " stages=" << plan.stages()
            << (plan.access == Access::kElements ? " by_elements" : "")
            << (plan.packs ? " packs" : "") << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32) {
  constexpr int64_t kLeastGroup = 8, kMostReduction = int64_t{1} << 30;
  if (direction == Direction::kWgrad) return "it is a weight gradient";
  if (std::string reason = warp_instruction_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.groups > 1 && !has_units(problem) &&
      std::min(problem.group_c(), problem.group_k()) < kLeastGroup) {
    return "a group has fewer than 8 channels";
  }
  const int64_t channels = direction == Direction::kFprop ? problem.group_c() : problem.group_k();
  if (round_up(channels, unit_elements(problem.type)) * problem.r * problem.s > kMostReduction) {
    return "channels, rounded up, times taps are more than 2^30";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool is_aligned) {
  const Access access = has_units(problem) && is_aligned ? Access::kUnits : Access::kElements;
  const bool packs = access == Access::kElements || !filter_lies_packed(problem, direction);
  const double step_depth = double{kRowBytes} / static_cast<double>(size_of(problem.type));
  std::vector<Plan> plans;
  for (const Tile& tile : kTiles) {
    if (access == Access::kElements && !takes_elements(tile)) continue;
    const int stages = stages_for(tile, chip);
    if (stages == 0) continue;
    std::vector<Arguments> launches = make_arguments(problem, direction, tile, stages);
    if (launches.empty()) continue;
    double tiles_ms = 0;
    for (const Arguments& args : launches) {
      double steps = 0;
      for (int32_t i = 0; i < args.phase_count; ++i) {
        const Phase& phase = args.phases[i];
        steps += std::ceil(phase.reduction / step_depth) *
                 static_cast<double>(ceil_div(phase.pixels, tile.pixels));
      }
      const double pixel_tiles = std::max(args.pixel_tiles, 1u);
      tiles_ms += launch_ms({.tile = tile,
                             .access = access,
                             .stages = stages,
                             .tiles = pixel_tiles * args.channel_tiles * args.geometry.groups,
                             .steps = steps / pixel_tiles,
                             .step_depth = step_depth},
                            chip, problem.type);
    }
    const int64_t packed_bytes = packs ? packed_elements(launches) * size_of(problem.type) : 0;
    const auto kernels = static_cast<double>(launches.size() * (packs ? 2 : 1));
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .access = access,
                     .packs = packs,
                     .launches = std::move(launches),
                     .estimated_ms = call_ms(problem, chip, tiles_ms,
                                             static_cast<double>(packed_bytes), kernels),
                     .workspace_bytes = packed_bytes});
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; });
  return plans;
}

}  // namespace haloconv::implicit_gemm
