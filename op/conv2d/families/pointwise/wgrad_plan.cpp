#include "conv2d/families/pointwise/wgrad_plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "conv2d/families/pointwise/costs.h"
#include "conv2d/families/pointwise/paired_arguments.h"
#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::pointwise {

namespace {

double estimate_ms(const Conv2dProblem& problem, const WgradArguments& args, const WgradPlan& plan,
                   const Chip& chip) {
  const Tile& tile = plan.tile;
  const double values = static_cast<double>(tile.rows + tile.columns) * kDepth;
  // Rounding float32 reads and writes shared memory once more, 80 bytes a cycle.
  const bool rounds = problem.type == DataType::kFloat32;
  const double rounding = rounds ? values * 2 * 2 / 80 : 0;
  const Work work{.tile = tile,
                  .chunks = static_cast<double>(args.split_chunks),
                  .copies = copy_cycles(values, args.pixel_unit) + rounding,
                  .results = static_cast<double>(tile.rows) * tile.columns / 16,
                  .rounds = rounds};
  return estimate_ms(work, static_cast<double>(args.blocks()), problem.bytes(), chip) +
         static_cast<double>(plan.workspace_bytes) / (kPartialBytesPerMs * memory_scale(chip)) +
         kLaunchMs;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const WgradPlan& plan) {
  os << (plan.is_full_filter ? "fprop full filter" : "wgrad")
     << " pointwise tile=" << plan.tile.rows << 'x' << plan.tile.columns;
  if (plan.splits > 1) os << " splits=" << plan.splits;
  if (plan.paired) {
    return os << " paired stages=" << kPairedStages << " workspace=" << plan.workspace_bytes;
  }
  if (plan.unfold) os << " unfolded";
  if (plan.flat_copy) os << " flat";
  return os << " stages=" << stages_of(plan.tile, plan.rounds)
            << " workspace=" << plan.workspace_bytes;
}

std::vector<WgradPlan> make_wgrad_plans(const Conv2dProblem& problem, const Chip& chip,
                                        bool with_bias) {
  std::vector<WgradPlan> plans;
  for (const Tile& tile : kTiles) {
    const std::optional<WgradArguments> whole =
        make_wgrad_arguments(problem, {.tile = tile, .with_bias = with_bias});
    if (!whole) continue;
    // Of float32 a thread has no registers for the sums of so many rows.
    if (with_bias && problem.type == DataType::kFloat32 && tile.rows == 128 &&
        whole->pixel_unit == 2) {
      continue;
    }
    const int64_t fewest = ceil_div(whole->chunks, kMostChunks);
    WgradPlan best;
    WgradArguments of_best{};
    best.estimated_ms = HUGE_VAL;
    for (int waves = 1; waves <= kMaxWaves; ++waves) {
      const bool rounds = problem.type == DataType::kFloat32;
      const int64_t blocks = int64_t{chip.multiprocessors} * blocks_of(tile, rounds) * waves;
      WgradPlan plan{.tile = tile, .with_bias = with_bias, .rounds = rounds};
      plan.splits =
          static_cast<int>(std::clamp<int64_t>(blocks / whole->blocks(), fewest, whole->chunks));
      const std::optional<WgradArguments> args = make_wgrad_arguments(problem, plan);
      if (!args) continue;
      plan.splits = args->splits;
      plan.workspace_bytes = workspace_bytes(*args, with_bias);
      if (plan.splits > 1 && plan.workspace_bytes > kMaxWorkspace) continue;
      plan.estimated_ms = estimate_ms(problem, *args, plan, chip);
      if (plan.estimated_ms >= best.estimated_ms) continue;
      best = plan;
      of_best = *args;
    }
    if (std::isinf(best.estimated_ms)) continue;
    best.arguments = std::make_shared<const WgradArguments>(of_best);
    plans.push_back(best);
  }
  return plans;
}

}  // namespace haloconv::pointwise
