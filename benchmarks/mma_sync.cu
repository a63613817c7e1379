// How fast the warp's matrix instruction is by itself: nothing but products, whose operands stay in
// registers. libhaloconv_mma_sync.so, which mma_sync.py calls.
#include <cuda_runtime.h>

#include <string_view>
#include <type_traits>

#include "cuda/mma.cuh"

namespace haloconv {
namespace {

constexpr int kWarps = 8;
constexpr int kBlocksOfMultiprocessor = 2;
// Operands of a warp. Each of their products has sums of its own, so that none waits for another.
constexpr int kRows = 4, kColumns = 4;

// Random signs and fractions, and exponents of zero: products that toggle as many bits as those of
// a network's tensors, since bits that do not change take less power.
template <class T>
__device__ uint32_t random_word(uint32_t seed) {
  uint32_t word = seed * 2654435761u;
  word = (word ^ word >> 15) * 2246822519u;
  word ^= word >> 13;
  if constexpr (std::is_same_v<T, __half>) return (word & 0x83ff83ff) | 0x3c003c00;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return (word & 0x807f807f) | 0x3f803f80;
  return (word & 0x807fe000) | 0x3f800000;
}

// A sum for each thread, which keeps the products from being left out.
template <class T>
__global__ void __launch_bounds__(32 * kWarps, kBlocksOfMultiprocessor)
    multiply(int steps, float* result) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t a[kRows][4], b[kColumns][2];
  uint32_t seed = thread * 64;
  for (auto& row : a) {
    for (uint32_t& word : row) word = random_word<T>(seed++);
  }
  for (auto& column : b) {
    for (uint32_t& word : column) word = random_word<T>(seed++);
  }
  float sums[kRows][kColumns][4] = {};
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) multiply_add<T>(sums[i][j], a[i], b[j]);
    }
  }
  float sum = 0;
  for (const auto& row : sums) {
    for (const auto& values : row) {
      for (const float value : values) sum += value;
    }
  }
  result[thread] = sum;
}

}  // namespace
}  // namespace haloconv

#define HALOCONV_EXPORT extern "C" __attribute__((visibility("default")))

// How many floats `result` must have room for on a device of so many multiprocessors.
HALOCONV_EXPORT int mma_sync_results(int multiprocessors) {
  return 32 * haloconv::kWarps * haloconv::kBlocksOfMultiprocessor * multiprocessors;
}

// Of a launch.
HALOCONV_EXPORT double mma_sync_flop(const char* arithmetic, int multiprocessors, int steps) {
  using namespace haloconv;
  const double depth = std::string_view(arithmetic) == "tf32" ? 8 : 16;
  const double warps = kWarps * kBlocksOfMultiprocessor * multiprocessors;
  return warps * steps * kRows * kColumns * 2 * 16 * 8 * depth;
}

// Enqueues a launch that fills the device, of the arithmetic "tf32", "fp16" or "bf16". Returns a
// description of the error, or null.
HALOCONV_EXPORT const char* mma_sync_launch(const char* arithmetic, int multiprocessors, int steps,
                                            float* result, cudaStream_t stream) {
  using namespace haloconv;
  const std::string_view name = arithmetic;
  const int blocks = kBlocksOfMultiprocessor * multiprocessors;
  if (name == "tf32") {
    multiply<float><<<blocks, 32 * kWarps, 0, stream>>>(steps, result);
  } else if (name == "fp16") {
    multiply<__half><<<blocks, 32 * kWarps, 0, stream>>>(steps, result);
  } else if (name == "bf16") {
    multiply<__nv_bfloat16><<<blocks, 32 * kWarps, 0, stream>>>(steps, result);
  } else {
    return "mma.sync is not measured in this arithmetic";
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
