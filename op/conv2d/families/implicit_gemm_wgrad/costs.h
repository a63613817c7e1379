// What the planner expects of a plan. As in implicit_gemm, no constant here was fitted: the kernels
// were not timed when this was written.
#pragma once

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm_wgrad/plan.h"
#include "conv2d/geometry/warp_instruction.h"

namespace haloconv::implicit_gemm_wgrad {

// Blocks that run at the same time.
int64_t blocks_at_once(const Tile& tile, int stages, int element_bytes, const Chip& chip);

double model_ms(const WarpInstructionModel& model, DataType type, const Plan& plan,
                const Chip& chip);

}  // namespace haloconv::implicit_gemm_wgrad
