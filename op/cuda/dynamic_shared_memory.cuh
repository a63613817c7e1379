// Kernels that use more shared memory than a kernel may without asking.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/check.h"

namespace haloconv {

// Lets the kernel's launches on this device use so many bytes. To be called before each, always
// with the same number: another thread's call may come between this one and the launch.
template <class... Arguments>
void allow_shared_bytes(void (*kernel)(Arguments...), int64_t bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             "cudaFuncSetAttribute");
}

}  // namespace haloconv
