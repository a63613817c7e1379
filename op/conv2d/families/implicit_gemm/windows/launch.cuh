// Launches a tile's kernels that read windows.
#pragma once

#include <stdexcept>

#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/launch_kernel.cuh"
#include "conv2d/families/implicit_gemm/staged/kernel.cuh"
#include "conv2d/families/implicit_gemm/windows/kernel.cuh"

namespace haloconv::implicit_gemm {

template <int kIndex>
void launch_windows(DataType type, Access access, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    if (access == Access::kElements) {
      return launch_kernel(implicit_gemm_staged_kernel<T, kIndex>, kTiles[kIndex], args, stream);
    }
    if constexpr (takes_unit_windows(kTiles[kIndex])) {
      return launch_kernel(implicit_gemm_windows_kernel<T, kIndex>, kTiles[kIndex], args, stream);
    }
    throw std::logic_error("haloconv: this tile has no kernel that reads windows of units");
  });
}

}  // namespace haloconv::implicit_gemm
