// What a plan costs, by a model of the chip.
#pragma once

#include "conv2d/families/channels_last_wgrad/layout.h"
#include "conv2d/families/channels_last_wgrad/plan.h"

namespace haloconv::sm90::channels_last_wgrad {

// Blocks that run at the same time, one on each multiprocessor.
int64_t blocks_at_once(int multiprocessors, int32_t cluster_blocks);

double estimated_ms(const Conv2dProblem& problem, const Plan& plan, const Layout& layout,
                    int multiprocessors);

}  // namespace haloconv::sm90::channels_last_wgrad
