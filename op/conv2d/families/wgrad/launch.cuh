// Starts one instantiation of the weight gradient's kernel: each file of instances has one.
#pragma once

#include "conv2d/families/wgrad/instances.h"
#include "conv2d/families/wgrad/kernel.cuh"
#include "cuda/check.h"

namespace haloconv::wgrad {

template <class T, int kInstructions, int kWidth>
void launch_instance(const Arguments& args, const RowMaps& maps, cudaStream_t stream) {
  auto* kernel = wgrad_kernel<T, kInstructions, kWidth, false>;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (args.boxes) kernel = wgrad_kernel<T, kInstructions, kWidth, true>;
  }
  // Set at every call, always to the same value: whatever another thread does in between, it holds.
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared),
             "cudaFuncSetAttribute");
  kernel<<<static_cast<unsigned>(args.blocks()), kThreads, static_cast<size_t>(shared_bytes(args)),
           stream>>>(args, maps);
  check_launch("wgrad");
}

}  // namespace haloconv::wgrad
