#include "conv2d/families/implicit_gemm_wgrad/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/families/implicit_gemm_wgrad/costs.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"
#include "conv2d/geometry/warp_instruction.h"

namespace haloconv::implicit_gemm_wgrad {

namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;
constexpr int64_t kLeastSplitPixels = 256;
constexpr int64_t kMostSplitPixels = int64_t{1} << 28;

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << "wgrad tile=" << plan.tile.rows << 'x' << plan.tile.columns
            << " stages=" << plan.args.stages << " splits=" << plan.args.splits
            << (plan.access == Access::kElements ? " by_elements" : "")
            << (plan.args.geometry.has_bias_column ? " with_bias" : "")
            << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32) {
  if (direction != Direction::kWgrad) return "it computes weight gradients only";
  if (std::string reason = warp_instruction_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  constexpr int64_t kLeastGroup = 8, kMostColumns = int64_t{1} << 30;
  const int64_t unit = kUnitBytes / size_of(problem.type);
  if (problem.groups > 1 && !lies_in_units(problem, unit) &&
      std::min(problem.group_c(), problem.group_k()) < kLeastGroup) {
    return "a group has fewer than 8 channels";
  }
  if (round_up(problem.group_c(), unit) * problem.r * problem.s > kMostColumns) {
    return "channels, rounded up, times taps are more than 2^30";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool is_aligned, bool every) {
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  const bool has_units = is_aligned && lies_in_units(problem, kUnitBytes / element_bytes);
  const Access access = has_units ? Access::kUnits : Access::kElements;
  const WarpInstructionModel model(problem, chip);
  std::vector<Plan> plans;
  const auto add = [&](const Tile& tile, int stages, int64_t splits) {
    Plan plan{.tile = tile,
              .access = access,
              .args = make_arguments(problem, with_bias, tile, splits, stages)};
    if (plan.args.blocks() > INT32_MAX || plan.args.split_pixels > kMostSplitPixels) return;
    plan.workspace_bytes = plan.args.splits * plan.args.split_elements() * int64_t{sizeof(float)};
    plan.estimated_ms = model_ms(model, problem.type, plan, chip);
    plans.push_back(plan);
  };
  for (const Tile& tile : kTiles) {
    if (access == Access::kElements && !takes_elements(tile, element_bytes)) continue;
    const int stages =
        stages_with_room(chip, blocks_of(tile), kLeastStages, kMostStages,
                         [&](int count) { return shared_bytes(tile, count, element_bytes); });
    if (stages == 0) continue;
    const Arguments whole = make_arguments(problem, with_bias, tile, 1, stages);
    const int64_t at_once = blocks_at_once(tile, stages, element_bytes, chip);
    const int64_t pixels = whole.geometry.pixels;
    const int64_t bytes = whole.split_elements() * int64_t{sizeof(float)};
    const int64_t least = ceil_div(pixels, kMostSplitPixels);
    const int64_t most =
        std::max(least, std::min(ceil_div(pixels, kLeastSplitPixels),
                                 std::max<int64_t>(kMostWorkspaceBytes / bytes, 1)));
    // One, two or three rounds of blocks, as full as can be.
    int64_t before = 0;
    for (int64_t rounds = 1; rounds <= 3; ++rounds) {
      const int64_t splits =
          std::clamp(rounds * at_once / whole.blocks(), std::max<int64_t>(least, 1), most);
      if (splits != before) add(tile, stages, splits);
      before = splits;
    }
    if (every && before != 1 && least <= 1) add(tile, stages, 1);
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::implicit_gemm_wgrad
