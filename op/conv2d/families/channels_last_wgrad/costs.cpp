#include "conv2d/families/channels_last_wgrad/costs.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

// Cycles and bytes of one multiprocessor.
constexpr double kCyclesPerMs = 1.6e6;
constexpr double kLoadBytes = 30;    // a cycle, from L2
constexpr double kMemoryBytes = 19;  // a cycle, from memory
constexpr double kSumBytes = 16;     // a cycle, of a tile's sums on their way
constexpr double kLaunchCycles = 3500;
constexpr double kBlockCycles = 1800;  // of a block's begin and end
constexpr double kClusterCycles = 1200;
constexpr double kReduceCycles = 3500;

}  // namespace

int64_t blocks_at_once(int multiprocessors, int32_t cluster_blocks) {
  // Larger clusters leave some of a processing cluster's multiprocessors idle.
  const int64_t lost = cluster_blocks <= 2 ? 0 : cluster_blocks == 4 ? 4 : 12;
  return std::max<int64_t>((multiprocessors - lost) / cluster_blocks, 1) * cluster_blocks;
}

double estimated_ms(const Conv2dProblem& problem, const Plan& plan, const Layout& layout,
                    int multiprocessors) {
  const Tile& tile = plan.tile;
  // An instruction lasts as long as its columns, or as the reading of its operands.
  const double instruction = std::max(tile.n() / 2.0, (2048 + 32.0 * tile.n()) / 128);
  const double math =
      instruction * tile.instructions * tile.math_warpgroups() * plan.patch.k_steps();
  const double load = static_cast<double>(layout.stage_bytes(tile)) / kLoadBytes;
  const int64_t splits = int64_t{plan.cluster_blocks} * plan.outer_splits;
  const int64_t patches = ceil_div(layout.patches, splits);
  const int64_t waves =
      ceil_div(layout.tiles() * splits, blocks_at_once(multiprocessors, plan.cluster_blocks));
  const double sum_bytes = 4.0 * static_cast<double>(tile.values());
  double block = kBlockCycles + static_cast<double>(patches) * std::max(math, load) +
                 sum_bytes / kSumBytes * 0.5;
  if (plan.cluster_blocks > 1) block += kClusterCycles + sum_bytes / kSumBytes;
  double cycles = static_cast<double>(waves) * block;
  cycles = std::max(cycles, problem.bytes() / (kMemoryBytes * multiprocessors));
  if (plan.outer_splits > 1) {
    cycles += kReduceCycles + plan.outer_splits * static_cast<double>(layout.tiles()) * sum_bytes /
                                  (kSumBytes * multiprocessors);
  }
  return (cycles + kLaunchCycles) / kCyclesPerMs;
}

}  // namespace haloconv::sm90::channels_last_wgrad
