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

// What blocks that run together read of grad_output for a patch each. Memory brings 64 bytes or
// more, so that a patch's row that begins in the midst of them comes with a part of its neighbours.
double bytes_at_once(const Arguments& args, const Chip& chip, int element_bytes) {
  constexpr int kMemoryBytes = 64;
  const Strides& output = args.geometry.output;
  const int row_bytes = implicit_gemm::kPatchColumns * element_bytes;
  const uint64_t places = static_cast<uint64_t>(output.n | output.c | output.h) * element_bytes |
                          static_cast<uint64_t>(row_bytes | kMemoryBytes);
  const double read_bytes = row_bytes + kMemoryBytes - static_cast<double>(places & -places);
  const auto blocks = static_cast<double>(args.blocks());
  const double splits = std::min<double>(blocks, chip.multiprocessors) / (blocks / args.splits);
  return splits * args.geometry.groups * args.geometry.rows * args.patch_rows * read_bytes;
}

// Fitted to 21 times of the reference problems on an H100.
double model_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  // Of the instruction's rate, in a patch, if nothing is copied. Narrow tiles load more for a
  // product; float32 is loaded word by word.
  const bool is_wide = plan.tile.warp_columns() == 64;
  const bool is_float = problem.type == DataType::kFloat32;
  const double sustained = is_float ? (is_wide ? 0.55 : 0.52) : (is_wide ? 0.8 : 0.7);
  constexpr double kPatchCycles = 2700;  // of a patch, for its barriers and first loads
  constexpr double kTurnedBytes = 25;    // of a window, in a cycle
  constexpr double kBlockCycles = 6000;  // of a block, for its first copies and last results
  // To a multiprocessor's shared memory, in a cycle: as much as comes, or so many copies.
  constexpr double kCopiedBytes = 20, kCopies = 2.3;
  constexpr double kKept = 1.0 / 3;  // of the L2 cache, until a patch's neighbour is read
  const Arguments& args = plan.args;
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  const double rate =
      matrix_rate(chip, problem.type, /*tf32=*/true) * warp_instruction_share(chip) * sustained;
  const double pixels = args.patch_rows * implicit_gemm::kPatchColumns;
  const double math = plan.tile.rows * plan.tile.columns * pixels / rate;
  const double copied =
      args.forward.windows.bytes / kCopiedBytes +
      plan.tile.rows * pixels * element_bytes / std::min(kCopiedBytes, kCopies * args.granule);
  // What a patch's neighbour has with it comes from the memory again, where the cache has lost it.
  const double at_once = bytes_at_once(args, chip, element_bytes);
  const bool is_kept = at_once <= kKept * static_cast<double>(chip.l2_bytes);
  const double memory_rate = chip.memory_rate * kReachedMemoryRate;
  const double brought = std::max(copied, is_kept ? 0 : at_once / memory_rate * chip.clock_hz);
  // Copies are issued between the products, and neither hides all of the other. (std::hypot would
  // be glibc 2.35's, and the wheel is for 2.34.)
  const double overlapped = std::sqrt(math * math + brought * brought);
  const double patch = overlapped + args.forward.windows.bytes / kTurnedBytes + kPatchCycles;
  const double block = args.split_patches * patch + kBlockCycles;
  const double rounds = std::ceil(static_cast<double>(args.blocks()) / chip.multiprocessors);
  const double math_ms = rounds * block / chip.clock_hz * 1e3;
  // Written, and read by the sum, which is a kernel of its own.
  const double partial_ms = 2 * static_cast<double>(plan.workspace_bytes) / memory_rate * 1e3;
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
