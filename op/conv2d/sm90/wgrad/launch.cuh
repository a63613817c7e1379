// Starts one instantiation of the weight gradient's kernel: each file of instances has one.
#pragma once

#include "conv2d/sm90/wgrad/instances.h"
#include "conv2d/sm90/wgrad/kernel.cuh"
#include "cuda_check.h"

namespace haloconv::sm90::wgrad {

template <int kSlots, int kWidth>
void launch_kernel(const Arguments& args, const RowMaps& maps, cudaStream_t stream) {
  const auto kernel =
      args.boxes ? wgrad_kernel<kSlots, kWidth, true> : wgrad_kernel<kSlots, kWidth, false>;
  // The same at every call: another thread's launch may come between this and ours.
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared),
             "cudaFuncSetAttribute");
  kernel<<<static_cast<unsigned>(args.blocks()), kThreads, static_cast<size_t>(shared_bytes(args)),
           stream>>>(args, maps);
  check_launch("sm90 wgrad");
}

}  // namespace haloconv::sm90::wgrad
