// What a plan costs, by a model of the chip.
#pragma once

#include "chip/chip.h"
#include "conv2d/families/channels_last_wgrad/plan.h"

namespace haloconv::sm90::channels_last_wgrad {

// Blocks that run at the same time, one on each multiprocessor.
int64_t blocks_at_once(const Chip& chip, int32_t cluster_blocks);

// `bytes`: met_bytes() of the problem. Infinity as soon as it is seen to be `most_ms` or more.
double model_ms(double bytes, const Plan& plan, const Chip& chip, double most_ms);

}  // namespace haloconv::sm90::channels_last_wgrad
