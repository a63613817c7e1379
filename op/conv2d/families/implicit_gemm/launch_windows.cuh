// Launches a tile's kernels that read windows.
#pragma once

#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/launch_kernel.cuh"
#include "conv2d/families/implicit_gemm/staged_kernel.cuh"
#include "conv2d/families/implicit_gemm/window_kernel.cuh"

namespace haloconv::implicit_gemm {

template <int kIndex>
void launch_windows(DataType type, Access access, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    launch_kernel(access == Access::kUnits ? implicit_gemm_windows_kernel<T, kIndex>
                                           : implicit_gemm_staged_kernel<T, kIndex>,
                  kTiles[kIndex], args, stream);
  });
}

}  // namespace haloconv::implicit_gemm
