// The gradients of filter and bias by windows of the input: grad_filter (output channels x
// columns) = grad_output (output channels x pixels) * input (pixels x columns). A column is a
// channel of the input at a tap. A block has some output channels and some taps of a chunk of the
// channels. For each of its patches of output pixels a window of the input comes to shared memory
// once (implicit_gemm/windows.h), and each tap reads it from another place on.
//
// Blocks share the patches out among them. Each leaves its sums in the workspace, and a second
// kernel adds them in the order of the splits, so that results repeat bit for bit.
#pragma once

#include <optional>

#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/tile.h"

namespace haloconv::windows_wgrad {

struct Arguments {
  implicit_gemm::Arguments forward;  // whose windows these are; its source is the input
  const void* grad_output;
  float* partial;  // (split, group, row, column): geometry.columns, the bias gradient's the last
  Wgrad geometry;
  int32_t patch_rows, granule;  // bytes that one copy brings of a row of grad_output
  int32_t row_tiles, tap_tiles;
  int32_t patches, split_patches, splits;

  int64_t blocks() const {
    return int64_t{splits} * geometry.groups * forward.windows.chunks * tap_tiles * row_tiles;
  }
  int64_t split_elements() const {
    return int64_t{geometry.groups} * geometry.rows * geometry.columns;
  }
};

// All but pointers, with patches of so many pixels and chunks of 2^log_units units; nothing where
// there are no windows of rows that copies of 4 bytes or more can bring.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, bool with_bias,
                                        const Tile& tile, int patch_pixels, int log_units,
                                        int64_t splits);

int shared_bytes(const Tile& tile, const Arguments& args, int element_bytes);

}  // namespace haloconv::windows_wgrad
