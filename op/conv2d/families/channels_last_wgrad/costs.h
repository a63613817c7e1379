// What a plan costs, by a model of the chip.
#pragma once

#include "chip/chip.h"
#include "conv2d/families/channels_last_wgrad/plan.h"

namespace haloconv::sm90::channels_last_wgrad {

inline constexpr int32_t kMostClusterBlocks = 8;

// Clusters of so many blocks, one on each multiprocessor, that run at the same time.
int64_t clusters_at_once(const Chip& chip, int32_t cluster_blocks);

// `bytes`: met_bytes() of the problem. Infinity as soon as it is seen to be `most_ms` or more.
double model_ms(double bytes, const Plan& plan, const Chip& chip, double most_ms);

}  // namespace haloconv::sm90::channels_last_wgrad
