// Launches a tile's kernels that gather units.
#pragma once

#include <stdexcept>

#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/kernel.cuh"
#include "conv2d/families/implicit_gemm/launch_kernel.cuh"

namespace haloconv::implicit_gemm {

template <int kIndex>
void launch_tile(DataType type, Access access, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    if (access == Access::kUnits) {
      return launch_kernel(implicit_gemm_kernel<T, kIndex, Access::kUnits>, kTiles[kIndex], args,
                           stream);
    }
    if constexpr (takes_elements(kTiles[kIndex])) {
      return launch_kernel(implicit_gemm_kernel<T, kIndex, Access::kElements>, kTiles[kIndex], args,
                           stream);
    }
    throw std::logic_error("haloconv: this tile has no kernel that accesses elements");
  });
}

}  // namespace haloconv::implicit_gemm
