// What a plan costs, by a model of the chip.
#pragma once

#include "chip/chip.h"
#include "conv2d/families/channels_last_wgrad/plan.h"

namespace haloconv::sm90::channels_last_wgrad {

// Blocks that run at the same time, one on each multiprocessor.
int64_t blocks_at_once(const Chip& chip, int32_t cluster_blocks);

double model_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip);

}  // namespace haloconv::sm90::channels_last_wgrad
