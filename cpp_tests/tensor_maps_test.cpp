#include <gtest/gtest.h>

#include <thread>

#include "cpp_tests/device_tensor.h"
#include "cuda/tma.h"

namespace haloconv::testing {
namespace {

// The driver's functions know a thread's context, which only calls of the runtime give it.
TEST(TensorMaps, AreMadeOnANewThread) {
  if (!has_gpu() || gpu().compute_capability < 90) {
    GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
  const Buffer tensor(2 * 16 * 16 * 64 * 2);  // (n, h, w, c) of bfloat16
  const TensorView view{.address = tensor.data(),
                        .rank = 4,
                        .extents = {64, 16, 16, 2},
                        .strides = {1, 64, 16 * 64, 16 * 16 * 64}};
  const int32_t box[] = {64, 8, 8, 1};
  const PixelColumn column{.channels = 64, .pixels = 64, .count_w = 16, .count_h = 16};
  bool is_tiled_made = false, is_im2col_made = false;
  std::thread([&] {
    is_tiled_made = make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_128B).has_value();
  }).join();
  std::thread([&] {
    is_im2col_made = make_im2col_map(view, column, CU_TENSOR_MAP_SWIZZLE_128B).has_value();
  }).join();
  EXPECT_TRUE(is_tiled_made);
  EXPECT_TRUE(is_im2col_made);
}

}  // namespace
}  // namespace haloconv::testing
