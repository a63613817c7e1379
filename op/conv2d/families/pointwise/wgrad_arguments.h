// What the kernel for the gradient of filters of one tap is told: a matrix product for each group,
//
//   grad_filter[k, c] = sum over all images' pixels of grad_output[k, pixel] * input[c, pixel]
//
// Both operands lie as the matrix instruction takes them, as in arguments.h. Blocks share the
// pixels of a tile, and their sums, in float32, are added in order by a second kernel.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/pointwise/wgrad_plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

struct WgradArguments {
  const void *grad_output, *input;  // set for the launch
  float* partial;                   // (split, group, row of a tile's, column of a tile's)
  float* bias_partial;              // (split, group, row of a tile's), or null
  int32_t groups, rows, columns;    // and of a group output and input channels
  int32_t row_tiles, column_tiles;  // of a group
  int32_t padded_rows, padded_columns;
  // Pixels, and all distances, are of 16-bit values: a float32 is two of them.
  int32_t pixels;        // of all images
  FastDiv image_pixels;  // of one image
  int32_t chunks, split_chunks, splits;
  // Distances between neighbours, in elements.
  int64_t output_n, output_k, input_n, input_c;
  int32_t pixel_unit;  // neighbouring pixels that are copied at once: 8, 4, 2 or 1

  // The grid: blocks that share pixels are neighbours.
  int64_t blocks() const { return int64_t{splits} * groups * row_tiles * column_tiles; }
  HALOCONV_HOST_DEVICE int64_t partial_floats() const {
    return int64_t{groups} * padded_rows * padded_columns;
  }
  HALOCONV_HOST_DEVICE int64_t bias_partial_floats() const { return int64_t{groups} * padded_rows; }
};

// For a flattened() problem that declines() passes; none where the kernel does not take it.
std::optional<WgradArguments> make_wgrad_arguments(const Conv2dProblem& problem,
                                                   const WgradPlan& plan);

int64_t workspace_bytes(const WgradArguments& args, bool with_bias);

}  // namespace haloconv::pointwise
