#include "conv2d/families/channels_last_wgrad/costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "chip/scale.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

// Cycles, and bytes of one multiprocessor in a cycle. Fitted to the records of the networks' layers
// on an H100 and an H200, whose tensors were not in the L2 cache. See benchmarks/NOTES.md, "the
// bias in the estimates of weight gradients".
constexpr double kClockHz = 1.6e9;
constexpr double kLoadBytes = 42;       // from L2, while all multiprocessors load
constexpr double kMostLoadBytes = 54;   // while others are idle
constexpr double kFasterForTaps = 1.5;  // where strided taps have a box each, beside each other's
constexpr double kLoadLatency = 3940;   // under load
constexpr double kMemoryBytes = 17.1;
constexpr double kStageCycles = 100;  // beside a stage's products
// Of the bias, in a stage: by products, for 64 channels in a step of 16 pixels, the reading of
// their operands; by a warp's additions, for 64 channels of four pixels, and a part of the time of
// the stage's products, whose operands come from the same shared memory.
constexpr double kBiasProductCycles = 18;
constexpr double kBiasAdditionCycles = 34;
constexpr double kBiasAdditionsStageCycles = 313;
constexpr double kBiasReads = 0.6;
constexpr double kStoreBytes = 23;      // of a tile's sums
constexpr double kClusterBytes = 34.5;  // the same through other blocks' shared memory
constexpr double kPartialBytes = 30;    // read again as partial sums
constexpr double kHides = 5;            // what is hidden behind blocks or memory is not all of it
constexpr double kLaunchCycles = 4870;
constexpr double kBlockCycles = 1050;
constexpr double kClusterCycles = 2150;
constexpr double kAddPartialsCycles = 4600;

bool has_box_for_each_tap(const Layout& layout) {
  return layout.tile_s * layout.tile_r == 1 && layout.steps_s.kinds * layout.steps_r.kinds > 1;
}

// Cycles of a stage's products, or of the reading of their operands.
double product_cycles(const Layout& layout) {
  const Tile& tile = layout.tile;
  constexpr double kReadBytes = 128;  // of shared memory, in a cycle
  const double instruction = std::max(tile.n() / 2.0, (64 + tile.n()) * 32 / kReadBytes);
  return instruction * tile.instructions * tile.math_warpgroups() * layout.patch.k_steps();
}

// Cycles for which the sums of grad_output hold a stage: products, behind the stage's own; or
// additions by warps beside them.
double bias_cycles(const Layout& layout) {
  const double products = product_cycles(layout);
  if (layout.multiplies_for_bias()) {
    return kStageCycles + products +
           kBiasProductCycles *
               static_cast<double>(layout.tile.row_warpgroups * layout.patch.k_steps());
  }
  const int64_t pieces = ceil_div(4 * int64_t{layout.patch.k_steps()}, kBiasWarps);
  return kBiasAdditionsStageCycles + kBiasReads * products +
         kBiasAdditionCycles * static_cast<double>(pieces * layout.tile.row_warpgroups);
}

}  // namespace

int64_t clusters_at_once(const Chip& chip, int32_t cluster_blocks) {
  // As the driver counts them on an H200, where a processing cluster has 16 or 18 multiprocessors,
  // but one fewer. Which of an H200 they are differs from one to the next.
  constexpr int64_t kMultiprocessors = 132;
  constexpr int64_t kClusters[] = {132, 66, 39, 30, 22, 17, 15, 15};
  static_assert(std::size(kClusters) == kMostClusterBlocks);
  return std::max<int64_t>(kClusters[cluster_blocks - 1] * chip.multiprocessors / kMultiprocessors,
                           1);
}

CostModel::CostModel(double bytes, const Plan& plan, const Chip& chip)
    : chip_(chip),
      bytes_(bytes),
      tiles_(static_cast<double>(plan.layout.tiles())),
      sum_bytes_(4.0 * static_cast<double>(plan.layout.tile.values())),
      math_cycles_(kStageCycles + product_cycles(plan.layout)),
      latency_cycles_(kLoadLatency / (plan.stages - 1)),
      bias_cycles_(plan.with_bias ? bias_cycles(plan.layout) : 0),
      grad_output_bytes_(static_cast<double>(plan.layout.tile.row_warpgroups) *
                         plan.layout.grad_output_bytes),
      input_bytes_(static_cast<double>(plan.layout.input_boxes) * plan.layout.input_bytes),
      load_factor_(has_box_for_each_tap(plan.layout) ? kFasterForTaps : 1),
      bias_part_(static_cast<double>(plan.layout.tiles_of_k) / tiles_),
      l2_scale_(l2_scale(chip)),
      memory_bytes_(kMemoryBytes * memory_scale(chip) / clock_scale(chip)),
      clock_hz_(kClockHz * clock_scale(chip)) {}

// A stage lasts as long as its products; as its loads; or as the latency that the ring hides.
double CostModel::stage_cycles(int32_t cluster_tiles, double active_multiprocessors) const {
  const double bytes = grad_output_bytes_ + input_bytes_ / cluster_tiles;
  const double rate =
      std::min(kMostLoadBytes, kLoadBytes * chip_.multiprocessors / active_multiprocessors) *
      load_factor_;
  return std::max({math_cycles_, bytes / (rate * l2_scale_), latency_cycles_});
}

double CostModel::ms(const Plan& plan, double most_ms) const {
  const Layout& layout = plan.layout;
  const int64_t patches = ceil_div(layout.patches, plan.splits());
  const int64_t blocks = layout.tiles() * plan.splits();
  const int64_t waves =
      ceil_div(blocks / plan.cluster_blocks(), clusters_at_once(chip_, plan.cluster_blocks()));
  const double active = static_cast<double>(blocks) / static_cast<double>(waves);

  // Only the blocks of the first columns sum grad_output. If all blocks run at once, the call waits
  // for these. Otherwise a multiprocessor runs several blocks one after another, and their mean
  // counts.
  const double stage = stage_cycles(plan.cluster_tiles, active);
  const double longer = std::max(bias_cycles_ - stage, 0.0);
  const double mean_stage = stage + longer * (waves == 1 ? 1 : bias_part_);
  double block = kBlockCycles + static_cast<double>(patches) * mean_stage;
  const bool adds_in_cluster = plan.cluster_splits > 1;
  // A block of a cluster stores a part of the tile; the results are half as long as sums.
  block += sum_bytes_ / kStoreBytes * (adds_in_cluster && plan.outer_splits == 1 ? 0.5 : 1);
  if (adds_in_cluster) block += kClusterCycles + sum_bytes_ / kClusterBytes;
  const double memory = bytes_ / (memory_bytes_ * std::min<double>(chip_.multiprocessors,
                                                                   static_cast<double>(blocks)));
  const double math = static_cast<double>(waves) * block;
  double partial_cycles = 0;
  if (plan.outer_splits > 1) {
    partial_cycles = kAddPartialsCycles + plan.outer_splits * tiles_ * sum_bytes_ /
                                              (kPartialBytes * chip_.multiprocessors);
  }
  // Most plans take too long, which the power's root need not tell.
  const auto power = [](double cycles) { return cycles * cycles * cycles * cycles * cycles; };
  static_assert(kHides == 5);
  constexpr double kRounding = 1e-9;
  const double most = most_ms * clock_hz_ / 1e3 - kLaunchCycles - partial_cycles;
  if (most <= 0 || (power(math) + power(memory)) * (1 - kRounding) >= power(most)) return HUGE_VAL;
  const double cycles = std::pow(std::pow(math, kHides) + std::pow(memory, kHides), 1 / kHides);
  return (kLaunchCycles + cycles + partial_cycles) / clock_hz_ * 1e3;
}

}  // namespace haloconv::sm90::channels_last_wgrad
