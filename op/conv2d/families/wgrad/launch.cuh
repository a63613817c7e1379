// Starts one instantiation of the weight gradient's kernel: each file of instances has one.
#pragma once

#include "conv2d/families/wgrad/instances.h"
#include "conv2d/families/wgrad/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::wgrad {

template <class T, int kInstructions, int kWidth>
void launch_instance(const Arguments& args, const RowMaps& maps, cudaStream_t stream) {
  auto* kernel = wgrad_kernel<T, kInstructions, kWidth, false>;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (args.boxes) kernel = wgrad_kernel<T, kInstructions, kWidth, true>;
  }
  allow_shared_bytes(kernel, kMaxShared);
  kernel<<<static_cast<unsigned>(args.blocks()), kThreads, static_cast<size_t>(shared_bytes(args)),
           stream>>>(args, maps);
  check_launch("wgrad");
}

}  // namespace haloconv::wgrad
