// The instantiations of the weight gradient's kernel: type, instructions of a block, columns of a
// matrix instruction.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/families/wgrad/row_maps.h"

namespace haloconv::wgrad {

// `maps`: where there are boxes.
template <class T, int kInstructions, int kWidth>
void launch_instance(const Arguments& args, const RowMaps& maps, cudaStream_t stream);

}  // namespace haloconv::wgrad
