#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "conv2d/geometry/channels_innermost.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"
#include "conv2d/rates.h"

namespace haloconv::windows_wgrad {

namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;

double model_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  // Of the instruction's rate, in a patch: narrow tiles load more for a product, of float32 word by
  // word.
  const double narrow = problem.type == DataType::kFloat32 ? 0.38 : 0.48;
  const double sustained = plan.tile.warp_columns() == 64 ? 0.61 : narrow;
  constexpr double kPatchCycles = 1400;  // of a patch, for its barriers and first loads
  constexpr double kTurnedBytes = 23;    // of a window, in a cycle
  constexpr double kBlockCycles = 6000;  // of a block, for its first copies and last results
  // To a multiprocessor's shared memory, in a cycle: where copies are small, so many hide behind
  // the products.
  constexpr double kCopiedBytes = 16, kCopies = 1.4;
  const Arguments& args = plan.args;
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  const double rate =
      matrix_rate(chip, problem.type, /*tf32=*/true) * warp_instruction_share(chip) * sustained;
  const double pixels = args.patch_rows * implicit_gemm::kPatchColumns;
  const double math = plan.tile.rows * plan.tile.columns * pixels / rate;
  const double brought =
      args.forward.windows.bytes / kCopiedBytes +
      plan.tile.rows * pixels * element_bytes / std::min(kCopiedBytes, kCopies * args.granule);
  const double patch =
      std::max(math, brought) + args.forward.windows.bytes / kTurnedBytes + kPatchCycles;
  const double block = args.split_patches * patch + kBlockCycles;
  const double rounds = std::ceil(static_cast<double>(args.blocks()) / chip.multiprocessors);
  const double math_ms = rounds * block / chip.clock_hz * 1e3;
  // Written, and read by the sum, which is a kernel of its own.
  const double partial_ms =
      2 * static_cast<double>(plan.workspace_bytes) / (chip.memory_rate * kReachedMemoryRate) * 1e3;
  return warp_instruction_ms(problem, chip, math_ms, partial_ms, 2);
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const implicit_gemm::Windows& windows = plan.args.forward.windows;
  return os << "wgrad tile=" << plan.tile.rows << 'x' << plan.tile.columns
            << " patch_rows=" << plan.args.patch_rows << " window=" << windows.bytes
            << " units=" << windows.units() << " splits=" << plan.args.splits
            << (plan.args.geometry.has_bias_column ? " with_bias" : "")
            << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32) {
  constexpr int64_t kLeastGroup = 8, kMostColumns = int64_t{1} << 24;
  if (direction != Direction::kWgrad) return "it computes weight gradients only";
  if (std::string reason = warp_instruction_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.groups > 1 && std::min(problem.group_c(), problem.group_k()) < kLeastGroup) {
    return "a group has fewer than 8 channels";
  }
  if (problem.group_c() * problem.r * problem.s > kMostColumns) {
    return "channels times taps are more than 2^24";
  }
  if (problem.stride_h != 1 || problem.stride_w != 1) return "it has a stride";
  if (problem.r * problem.s < 2) return "it has one tap";
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every) {
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  std::vector<Plan> plans;
  const auto add = [&](const Tile& tile, const Arguments& args) {
    if (args.blocks() > INT32_MAX) return;
    Plan plan{.tile = tile, .args = args};
    plan.workspace_bytes = args.splits * args.split_elements() * int64_t{sizeof(float)};
    plan.estimated_ms = model_ms(problem, plan, chip);
    plans.push_back(plan);
  };
  for (const Tile& tile : kTiles) {
    for (const int patch_pixels : {256, 128}) {
      for (const int log_units : {2, 1}) {
        const auto of = [&](int64_t splits) {
          return make_arguments(problem, with_bias, tile, patch_pixels, log_units, splits);
        };
        const std::optional<Arguments> whole = of(1);
        if (!whole || shared_bytes(tile, *whole, element_bytes) > chip.shared_bytes_per_block) {
          continue;
        }
        const int64_t bytes = whole->split_elements() * int64_t{sizeof(float)};
        const int64_t most =
            std::min<int64_t>(whole->patches, std::max<int64_t>(kMostWorkspaceBytes / bytes, 1));
        // One, two or three rounds of blocks, as full as can be.
        int64_t before = 0;
        for (int64_t rounds = 1; rounds <= 3; ++rounds) {
          const Arguments args =
              *of(std::clamp<int64_t>(rounds * chip.multiprocessors / whole->blocks(), 1, most));
          if (args.splits != before) add(tile, args);
          before = args.splits;
        }
        if (every && before != 1) add(tile, *whole);
      }
    }
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; });
  return plans;
}

}  // namespace haloconv::windows_wgrad
