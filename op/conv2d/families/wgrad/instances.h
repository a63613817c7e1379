// The instantiations of the weight gradient's kernel: type, slots of a block, columns of a slot.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/families/wgrad/row_maps.h"

namespace haloconv::sm90::wgrad {

// `maps`: where there are boxes.
template <class T, int kSlots, int kWidth>
void launch_instance(const Arguments& args, const RowMaps& maps, cudaStream_t stream);

}  // namespace haloconv::sm90::wgrad
