// Checks of CUDA calls and kernel launches.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace haloconv {

// Throws std::runtime_error that names the call, the CUDA error and its meaning.
inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // a launch that failed is not the next one's error
  throw std::runtime_error(std::string("haloconv: ") + what + " failed: " +
                           cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
}

// To be called right after a kernel launch.
inline void check_launch(const char* kernel) { check_cuda(cudaGetLastError(), kernel); }

}  // namespace haloconv
