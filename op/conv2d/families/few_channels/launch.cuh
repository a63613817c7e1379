// Starts one instantiation of the kernel: each file of instances has one.
#pragma once

#include "conv2d/families/few_channels/instances.h"
#include "conv2d/families/few_channels/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::few_channels {

template <class T, int kRowTaps, int kColumns, bool kShuffles>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto kernel = few_channels_kernel<T, kRowTaps, kColumns, kShuffles>;
  allow_shared_bytes(kernel, kMaxShared);
  kernel<<<blocks, kThreads, static_cast<size_t>(shared_bytes(args)), stream>>>(args);
  check_launch("few_channels");
}

}  // namespace haloconv::few_channels
