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

// The same for kernels whose bytes differ from problem to problem: lets them use all that a block
// may have on this device. Kernels with static shared memory may not have as much.
template <class... Arguments>
void allow_all_shared_bytes(void (*kernel)(Arguments...)) {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  allow_shared_bytes(kernel, bytes);
}

}  // namespace haloconv
