#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/row_strips/arguments.h"

namespace haloconv::row_strips {

// Writes the filter to the workspace in the order in which the tensor cores read it, with float32
// rounded to TF32: see Arguments::element(). T: the filter's elements.
template <class T>
void launch_pack_filter(const Arguments& args, const T* filter, void* packed, cudaStream_t stream);

}  // namespace haloconv::row_strips
