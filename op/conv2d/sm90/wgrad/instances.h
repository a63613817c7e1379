// The instantiations of the weight gradient's kernel: slots of a block, columns of a slot.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/sm90/wgrad/arguments.h"
#include "conv2d/sm90/wgrad/row_maps.h"

namespace haloconv::sm90::wgrad {

void launch_9x32(const Arguments& args, const RowMaps& maps, cudaStream_t stream);
void launch_6x48(const Arguments& args, const RowMaps& maps, cudaStream_t stream);
void launch_5x56(const Arguments& args, const RowMaps& maps, cudaStream_t stream);
void launch_3x48(const Arguments& args, const RowMaps& maps, cudaStream_t stream);
void launch_4x64(const Arguments& args, const RowMaps& maps, cudaStream_t stream);

}  // namespace haloconv::sm90::wgrad
