// Kernels whose blocks wait for each other: they are launched so that all blocks run at once.
#pragma once

#include <cuda_runtime.h>

#include "cuda/check.h"

namespace haloconv {

template <class... Arguments>
void launch_together(void (*kernel)(Arguments...), unsigned blocks, unsigned threads,
                     cudaStream_t stream, const char* what, const Arguments&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel, args...), what);
}

}  // namespace haloconv
