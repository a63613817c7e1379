#include "cpp_tests/device_values.h"

#include "conv2d/device/with_element.h"
#include "cpp_tests/device_tensor.h"
#include "cuda/check.h"

namespace haloconv::testing {

namespace {

constexpr int kThreads = 256, kBlocks = 2048;

// Calls body(i) for each i below count, by all threads of the launch.
template <class Body>
__device__ void for_each(int64_t count, Body body) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += int64_t{kBlocks} * kThreads) {
    body(i);
  }
}

template <class T>
__global__ void fill_kernel(T* values, int64_t count, uint32_t seed) {
  for_each(count, [&](int64_t i) {
    uint64_t mixed = (static_cast<uint64_t>(i) + seed) * 0x9e3779b97f4a7c15;  // splitmix64
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    const float value = static_cast<float>(mixed >> 32) * 5 / 4294967296.0f;
    values[i] = T(floorf(fminf(value, 4)) - 2);
  });
}

template <class T>
__global__ void count_kernel(const T* values, const T* expected, int64_t count,
                             unsigned long long* differences) {
  for_each(count, [&](int64_t i) {
    if (!(float(values[i]) == float(expected[i]))) atomicAdd(differences, 1ull);
  });
}

}  // namespace

void fill_small_integers(void* values, DataType type, int64_t count, uint32_t seed) {
  with_element(type, [&]<class T>(T) {
    fill_kernel<<<kBlocks, kThreads>>>(static_cast<T*>(values), count, seed);
  });
  check_launch("fill_small_integers");
}

int64_t count_differences(const void* values, const void* expected, DataType type, int64_t count) {
  const Buffer buffer(sizeof(unsigned long long));
  auto* const differences = reinterpret_cast<unsigned long long*>(buffer.data());
  check_cuda(cudaMemset(differences, 0, sizeof(*differences)), "cudaMemset");
  with_element(type, [&]<class T>(T) {
    count_kernel<<<kBlocks, kThreads>>>(static_cast<const T*>(values),
                                        static_cast<const T*>(expected), count, differences);
  });
  check_launch("count_differences");
  unsigned long long result = 0;
  check_cuda(cudaMemcpy(&result, differences, sizeof(result), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return static_cast<int64_t>(result);
}

}  // namespace haloconv::testing
