// The filter in the order in which blocks bring it, rounded to TF32: the matrix instruction's
// operand for each phase of rows, tile of channels, chunk of source channels, row of taps, 8 source
// channels and served shift. Padded channels are zeros.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/phase_pairs/arguments.h"
#include "conv2d/families/phase_pairs/plan.h"

namespace haloconv::phase_pairs {

void launch_pack_filter(const Arguments& args, const Tile& tile, const float* filter, void* packed,
                        cudaStream_t stream);

}  // namespace haloconv::phase_pairs
