#include "chip/chip_of_device.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "cpp_tests/device_tensor.h"

namespace haloconv::testing {
namespace {

TEST(ChipOfDevice, AnIndexOutOfRangeIsAnError) {
  EXPECT_THROW(chip_of_device(-1), std::runtime_error);
  EXPECT_THROW(chip_of_device(128), std::runtime_error);
}

TEST(ChipOfDevice, IsWhatTheDeviceSays) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  const Chip& chip = chip_of_device(0);
  EXPECT_EQ(chip.name, properties.name);
  EXPECT_EQ(chip.compute_capability, properties.major * 10 + properties.minor);
  EXPECT_EQ(chip.multiprocessors, properties.multiProcessorCount);
  EXPECT_EQ(chip.shared_bytes_per_block, most_shared_bytes(chip.compute_capability)) << chip;
  EXPECT_EQ(chip.l2_bytes, properties.l2CacheSize);
  EXPECT_GT(chip.clock_hz, 0.5e9) << chip;
  EXPECT_GT(chip.memory_rate, 50e9) << chip;
}

// Threads that ask at once get one answer, which stays where it is.
TEST(ChipOfDevice, IsKept) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  std::vector<const Chip*> chips(8);
  std::vector<std::thread> threads;
  for (const Chip*& chip : chips) threads.emplace_back([&] { chip = &chip_of_current_device(); });
  for (std::thread& thread : threads) thread.join();
  for (const Chip* chip : chips) EXPECT_EQ(chip, &chip_of_device(0));
}

}  // namespace
}  // namespace haloconv::testing
