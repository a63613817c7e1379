// Kernels that may start while the one before them in the stream still runs: their launch, and what
// their blocks do.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/check.h"

namespace haloconv {

// Launches a kernel whose blocks may begin before the kernel before has ended; they wait for it
// themselves.
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

// The next kernel, launched so, may start as soon as all blocks have got here.
__device__ __forceinline__ void allow_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Until the kernel before has ended and its writes are seen.
__device__ __forceinline__ void wait_for_kernel_before() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace haloconv
