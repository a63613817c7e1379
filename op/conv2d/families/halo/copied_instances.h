// The instantiations of the kernel whose results the copy engine writes: by type, matrix
// instructions of a warpgroup, pixels of an instruction, and chunks of channels.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/copied_arguments.h"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth, int kChunks>
void launch_copied_instance(const Arguments& args, const CopiedArguments& copied, unsigned blocks,
                            cudaStream_t stream);

template <class T, int kInstructions, int kWidth>
void launch_copied_rows(const Arguments& args, const CUtensorMap& map, unsigned blocks,
                        cudaStream_t stream);

}  // namespace haloconv::halo
