// The gradients of filter and bias as a product of matrices: grad_filter (output channels x
// columns) = grad_output (output channels x pixels) * input (pixels x columns). A column is a
// channel of the input at a tap, counted (tap, channel); in the kernel's own count a tap's channels
// are rounded up to whole units of 16 bytes, with zeros.
//
// Blocks share the pixels out among them. Each leaves its sums in the workspace, and a second
// kernel adds them in the order of the splits, so that results repeat bit for bit.
#pragma once

#include <cstdint>

#include "conv2d/families/implicit_gemm_wgrad/tile.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::implicit_gemm_wgrad {

// How the operands come to shared memory.
enum class Access {
  kUnits,    // whole units of channels, which lie side by side, are copied as they are
  kElements  // one by one, so that any strides will do; quick where pixels lie side by side
};

struct Arguments {
  const void* input;
  const void* grad_output;
  float* partial;  // (split, group, row, column): geometry.columns, the bias gradient's the last
  Wgrad geometry;
  FastDiv tap_columns;     // a tap's columns in the kernel's count
  int32_t kernel_columns;  // of all taps
  uint32_t row_tiles, column_tiles;
  int64_t split_pixels, splits;
  int32_t stages;

  int64_t blocks() const { return splits * geometry.groups * int64_t{column_tiles} * row_tiles; }
  int64_t split_elements() const {
    return int64_t{geometry.groups} * geometry.rows * geometry.columns;
  }
};

// All but pointers.
Arguments make_arguments(const Conv2dProblem& problem, bool with_bias, const Tile& tile,
                         int64_t splits, int stages);

}  // namespace haloconv::implicit_gemm_wgrad
