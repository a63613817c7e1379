// Launches a tile's kernels.
#pragma once

#include <stdexcept>

#include "conv2d/device/grid.h"
#include "conv2d/device/reduce_splits.cuh"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm_wgrad/instances.h"
#include "conv2d/families/implicit_gemm_wgrad/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::implicit_gemm_wgrad {

template <class T, int kIndex, Access kAccess>
void launch_kernel(const Arguments& args, cudaStream_t stream) {
  constexpr Tile kTile = kTiles[kIndex];
  const auto kernel = implicit_gemm_wgrad_kernel<T, kIndex, kAccess>;
  // The same at every call: a device, a tile and a type have one number of stages.
  const int bytes = shared_bytes(kTile, args.stages, sizeof(T));
  allow_shared_bytes(kernel, bytes);
  kernel<<<grid_blocks(args.blocks()), kTile.threads(), bytes, stream>>>(args);
  check_launch("implicit_gemm_wgrad");
}

template <int kIndex>
void launch_tile(DataType type, Access access, const Arguments& args, void* grad_filter,
                 void* grad_bias, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    if (access == Access::kUnits) {
      launch_kernel<T, kIndex, Access::kUnits>(args, stream);
    } else if constexpr (takes_elements(kTiles[kIndex], sizeof(T))) {
      launch_kernel<T, kIndex, Access::kElements>(args, stream);
    } else {
      throw std::logic_error("haloconv: this tile has no kernel that accesses elements");
    }
    launch_reduce_splits<T>(args.partial, args.geometry, args.splits, grad_filter, grad_bias,
                            stream);
  });
}

}  // namespace haloconv::implicit_gemm_wgrad
