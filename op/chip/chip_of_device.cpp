#include "chip/chip_of_device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

#include "cuda/check.h"

namespace haloconv {

namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

Chip ask(int device) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  const double memory_clock_hz = 1e3 * attribute(cudaDevAttrMemoryClockRate, device);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0;
  return make_chip(
      {.name = properties.name,
       .compute_capability = properties.major * 10 + properties.minor,
       .multiprocessors = properties.multiProcessorCount,
       .clock_hz = 1e3 * attribute(cudaDevAttrClockRate, device),
       .memory_rate = 2 * memory_clock_hz * bus_bytes,  // two transfers a cycle
       .shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
       .shared_bytes_per_multiprocessor =
           static_cast<int64_t>(properties.sharedMemPerMultiprocessor),
       .l2_bytes = properties.l2CacheSize});
}

}  // namespace

const Chip& chip_of_device(int device) {
  constexpr int kMostDevices = 128;  // more than torch takes
  static std::array<std::atomic<const Chip*>, kMostDevices> chips;
  if (device < 0 || device >= kMostDevices) {
    throw std::runtime_error("haloconv: a device's index from 0 to 127 was expected, got " +
                             std::to_string(device));
  }
  std::atomic<const Chip*>& kept = chips[static_cast<size_t>(device)];
  if (const Chip* chip = kept.load(std::memory_order_acquire)) return *chip;
  // No lock is held here: two threads may both ask, and the first's answer is kept. It is never
  // freed: calls may come at exit.
  const Chip* const asked = new Chip(ask(device));
  const Chip* expected = nullptr;
  if (kept.compare_exchange_strong(expected, asked, std::memory_order_acq_rel)) return *asked;
  delete asked;
  return *expected;
}

const Chip& chip_of_current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return chip_of_device(device);
}

}  // namespace haloconv
