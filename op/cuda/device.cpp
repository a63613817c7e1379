#include "cuda/device.h"

#include <cuda_runtime_api.h>

#include "cuda/check.h"

namespace haloconv {

void use_device(int device) {
  int current = -1;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device) check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

bool is_capturing(int device, CUstream_st* stream) {
  use_device(device);  // the default stream is that of the current one
  auto status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace haloconv
