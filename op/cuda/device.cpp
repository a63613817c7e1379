#include "cuda/device.h"

#include <cuda_runtime_api.h>

#include "cuda/check.h"

namespace haloconv {

void use_device(int device) {
  int current = -1;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device) check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

}  // namespace haloconv
