// Launches a tile's kernels.
#pragma once

#include "conv2d/device/grid.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/apart_kernel.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/instances.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::windows_wgrad {

template <class T, int kIndex>
constexpr auto kernel_of_tile() {
  if constexpr (kTiles[kIndex].copies_apart) {
    return windows_wgrad_apart_kernel<T, kIndex>;
  } else {
    return windows_wgrad_kernel<T, kIndex>;
  }
}

template <int kIndex>
void launch_tile(DataType type, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    const auto kernel = kernel_of_tile<T, kIndex>();
    allow_all_shared_bytes(kernel);
    const int bytes = shared_bytes(kTiles[kIndex], args);
    constexpr int kBlock = kTiles[kIndex].threads();
    kernel<<<grid_blocks(args.blocks()), kBlock, bytes, stream>>>(args);
    check_launch("windows_wgrad");
  });
}

}  // namespace haloconv::windows_wgrad
