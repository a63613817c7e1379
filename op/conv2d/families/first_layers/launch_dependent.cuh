// Launches of kernels whose blocks may begin before the kernel before has ended; they wait for it
// themselves.
#pragma once

#include <cuda_runtime.h>

#include "cuda/check.h"

namespace haloconv::sm90::first_layers {

template <class... Arguments>
void launch_dependent(void (*kernel)(Arguments...), unsigned blocks, int threads,
                      int64_t shared_bytes, cudaStream_t stream, const char* what,
                      const Arguments&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel, args...), what);
}

}  // namespace haloconv::sm90::first_layers
