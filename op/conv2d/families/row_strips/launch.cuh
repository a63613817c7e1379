// Starts one instantiation of the kernel: each file of instances has one.
#pragma once

#include <cuda_runtime.h>

#include "conv2d/families/row_strips/instances.h"
#include "conv2d/families/row_strips/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::row_strips {

template <class T, int kBlocks>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto kernel = row_strips_kernel<T, kBlocks>;
  allow_shared_bytes(kernel, kMaxShared);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kBlocks, 1, 1};
  // Its blocks start while the filter is still being packed, and wait for it themselves.
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes(args));
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  check_cuda(cudaLaunchKernelEx(&config, kernel, args), "row_strips");
}

}  // namespace haloconv::row_strips
