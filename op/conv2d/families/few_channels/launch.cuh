// Starts one instantiation of the kernel: each file of instances has one.
#pragma once

#include "conv2d/families/few_channels/instances.h"
#include "conv2d/families/few_channels/kernel.cuh"
#include "cuda/check.h"

namespace haloconv::sm90::scatter {

template <int kRowTaps, int kColumns>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto kernel = scatter_kernel<kRowTaps, kColumns>;
  // The same at every call: another thread's launch may come between this and ours.
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared),
             "cudaFuncSetAttribute");
  kernel<<<blocks, kThreads, static_cast<size_t>(shared_bytes(args)), stream>>>(args);
  check_launch("sm90 scatter");
}

}  // namespace haloconv::sm90::scatter
