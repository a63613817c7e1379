#include "chip/chip_of_device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

#include "chip/requirements.h"
#include "cuda/check.h"

namespace haloconv {

namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// What is known of a device.
struct Known {
  Chip chip;
  std::string why_no_kernels = {};
};

std::string lack_of_this_driver() {
  const int driver = driver_version();
  return driver == 0 ? "" : lack_of_driver(driver, CUDART_VERSION);
}

Known ask(int device) {
  if (std::string lack = lack_of_this_driver(); !lack.empty()) {
    return {.chip = make_chip({.name = "unknown", .multiprocessors = 1}), .why_no_kernels = lack};
  }
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  const double memory_clock_hz = 1e3 * attribute(cudaDevAttrMemoryClockRate, device);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0;
  const int compute_capability = properties.major * 10 + properties.minor;
  const Chip chip =
      make_chip({.name = properties.name,
                 .compute_capability = compute_capability,
                 .multiprocessors = properties.multiProcessorCount,
                 .clock_hz = 1e3 * attribute(cudaDevAttrClockRate, device),
                 .memory_rate = 2 * memory_clock_hz * bus_bytes,  // two transfers a cycle
                 .shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
                 .shared_bytes_per_multiprocessor =
                     static_cast<int64_t>(properties.sharedMemPerMultiprocessor),
                 .l2_bytes = properties.l2CacheSize});
  return {.chip = chip, .why_no_kernels = lack_of_capability(compute_capability, CUDART_VERSION)};
}

const Known& known_of(int device) {
  constexpr int kMostDevices = 128;  // more than torch takes
  static std::array<std::atomic<const Known*>, kMostDevices> devices;
  if (device < 0 || device >= kMostDevices) {
    throw std::runtime_error("haloconv: a device's index from 0 to 127 was expected, got " +
                             std::to_string(device));
  }
  std::atomic<const Known*>& kept = devices[static_cast<size_t>(device)];
  if (const Known* known = kept.load(std::memory_order_acquire)) return *known;
  // No lock is held here: two threads may both ask, and the first's answer is kept. It is never
  // freed: calls may come at exit.
  const Known* const asked = new Known(ask(device));
  const Known* expected = nullptr;
  if (kept.compare_exchange_strong(expected, asked, std::memory_order_acq_rel)) return *asked;
  delete asked;
  return *expected;
}

}  // namespace

const Chip& chip_of_device(int device) { return known_of(device).chip; }

const std::string& why_no_kernels(int device) { return known_of(device).why_no_kernels; }

// An older driver makes every call fail but this one.
int driver_version() {
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return driver;
}

const Chip& chip_of_current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return chip_of_device(device);
}

}  // namespace haloconv
