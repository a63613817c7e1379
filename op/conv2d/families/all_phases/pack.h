// The filter in the order in which blocks bring it: for each tile of columns, chunk of source
// channels, shift and half of the chunk the matrix instruction's operand, rounded to TF32 where it
// is float32; zero where a column, a channel or a tap does not exist. Behind it a
// byte for each column and unit of channels that is not zero if a weight is not finite. And where a
// tile wants it the source, in units of 16 bytes of channels at all positions, zero between rows
// and images.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/all_phases/arguments.h"
#include "conv2d/families/all_phases/plan.h"

namespace haloconv::all_phases {

void launch_pack(const Arguments& args, const Tile& tile, DataType type, void* workspace,
                 cudaStream_t stream);

}  // namespace haloconv::all_phases
