// Fixtures for kernels of tensors with channels innermost: a typed shape, and the GPU that it
// needs.
#pragma once

#include <gtest/gtest.h>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

class ChannelsLastShape : public ::testing::TestWithParam<TypedShape> {
 protected:
  ChannelsLastShape() { problem_.set_dense_strides(true); }

  Conv2dProblem problem_ = GetParam().problem;
};

class HopperChannelsLast : public ChannelsLastShape {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
};

class Sm80ChannelsLast : public ChannelsLastShape {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability < 80) {
      GTEST_SKIP() << "needs a GPU of compute capability 8.0 or later";
    }
  }

  // The GPU, as if its blocks had less shared memory.
  static Chip with_shared_memory(int64_t kilobytes) {
    Chip chip = gpu();
    chip.shared_bytes_per_block = kilobytes << 10;
    chip.shared_bytes_per_multiprocessor = (kilobytes + 1) << 10;
    return chip;
  }

  // Two groups where each has 8 channels or a multiple of them.
  Conv2dProblem in_groups() const {
    Conv2dProblem p = problem_;
    p.groups = p.c % 16 == 0 && p.k % 16 == 0 ? 2 : 1;
    p.set_dense_strides(true);
    return p;
  }
};

}  // namespace haloconv::testing
