// Launches a tile's kernels.
#pragma once

#include <stdexcept>

#include "conv2d/device/grid.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/instances.h"
#include "conv2d/families/implicit_gemm/kernel.cuh"
#include "cuda/check.h"

namespace haloconv::implicit_gemm {

template <class T, int kIndex, Access kAccess>
void launch_kernel(const Arguments& args, cudaStream_t stream) {
  constexpr Tile kTile = kTiles[kIndex];
  const auto kernel = implicit_gemm_kernel<T, kIndex, kAccess>;
  // The same at every call for a device: another thread's launch may come between this and ours.
  const int bytes = shared_bytes(kTile, args.stages);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "cudaFuncSetAttribute");
  const int64_t blocks = int64_t{args.channel_tiles} * args.pixel_tiles * args.geometry.groups;
  kernel<<<grid_blocks(blocks), kTile.threads(), bytes, stream>>>(args);
  check_launch("implicit_gemm");
}

template <int kIndex>
void launch_tile(DataType type, Access access, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    if (access == Access::kUnits) return launch_kernel<T, kIndex, Access::kUnits>(args, stream);
    if constexpr (takes_elements(kTiles[kIndex])) {
      return launch_kernel<T, kIndex, Access::kElements>(args, stream);
    }
    throw std::logic_error("haloconv: this tile has no kernel that accesses elements");
  });
}

}  // namespace haloconv::implicit_gemm
