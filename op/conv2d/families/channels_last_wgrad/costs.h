// What a plan costs, by a model of the chip.
#pragma once

#include "chip/chip.h"
#include "conv2d/families/channels_last_wgrad/plan.h"

namespace haloconv::sm90::channels_last_wgrad {

// Clusters of so many blocks, one on each multiprocessor, that run at the same time.
int64_t clusters_at_once(const Chip& chip, int32_t cluster_blocks);

// What the plans of a layout cost, which differ in clusters and splits.
class CostModel {
 public:
  // `bytes`: met_bytes() of the problem; `plan`: one of these.
  CostModel(double bytes, const Plan& plan, const Chip& chip);

  // Infinity as soon as it is seen to be `most_ms` or more.
  double ms(const Plan& plan, double most_ms) const;

 private:
  double stage_cycles(int32_t cluster_tiles, double active_multiprocessors) const;

  const Chip& chip_;
  double bytes_, tiles_, sum_bytes_;
  // Cycles of a stage's products, of the latency that the ring hides, and of the bias.
  double math_cycles_, latency_cycles_, bias_cycles_;
  double grad_output_bytes_, input_bytes_;  // of a stage
  double load_factor_;                      // where its loads are faster
  double bias_part_;                        // of the blocks, that sum grad_output
  double l2_scale_, memory_bytes_, clock_hz_;
};

}  // namespace haloconv::sm90::channels_last_wgrad
