// The instantiations of the kernels whose results the copy engine writes: of pieces of one row by
// 16-bit type; of pieces of several rows by type and pixels of an instruction.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/copied_arguments.h"
#include "conv2d/families/halo/flat_arguments.h"

namespace haloconv::halo {

template <class T>
void launch_copied_lines(const Arguments& args, const CopiedArguments& copied, unsigned blocks,
                         cudaStream_t stream);

template <class T>
void launch_flat_lines(const Arguments& args, const FlatArguments& flat, unsigned blocks,
                       cudaStream_t stream);

template <class T, int kWidth>
void launch_copied_rows(const Arguments& args, const CUtensorMap& map, unsigned blocks,
                        cudaStream_t stream);

}  // namespace haloconv::halo
