// The instantiations of the gather kernel: instructions of a warpgroup, pixels of an instruction;
// and those that take a fusion.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/sm90/gather/arguments.h"

namespace haloconv::sm90 {

void launch_4x64(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_2x64(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_4x56(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_2x56(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_2x104(const Arguments& args, unsigned blocks, cudaStream_t stream);

void launch_4x64_fused(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_2x64_fused(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_4x56_fused(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_2x56_fused(const Arguments& args, unsigned blocks, cudaStream_t stream);
void launch_2x104_fused(const Arguments& args, unsigned blocks, cudaStream_t stream);

}  // namespace haloconv::sm90
