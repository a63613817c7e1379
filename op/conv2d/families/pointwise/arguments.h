// What the kernel for filters of one tap is told: a matrix product for each group,
//
//   destination[channel, pixel] = sum over depth of filter[channel, depth] * source[depth, pixel]
//
// in which pixels run over all images. As fprop has it, destination channels are rows of the
// filter; in dgrad they are its columns. Either way both operands lie in global memory as the
// matrix instruction takes them from shared memory, so nothing is packed or turned.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/pointwise/plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

struct Arguments {
  const void *source, *filter, *bias;  // set for the launch; bias may be null
  void* destination;
  int32_t groups, rows, depth;  // and of a group destination and source channels
  int32_t row_tiles;            // of a group
  int32_t pixels;               // of all images
  int32_t pixel_tiles;
  FastDiv image_pixels;  // of one image
  FastDiv row_tiles_div, groups_div;
  // Distances between neighbours, in elements.
  int64_t source_n, source_c, destination_n, destination_c, filter_k;
  // Neighbours that are copied at once, 8, 4, 2 or 1: of the filter, source pixels, and results.
  // They divide what neighbours there are.
  int32_t filter_unit, pixel_unit, result_unit;
  // Of a problem with a spread: how many rows of the result a source pixel has, source pixels of a
  // row, and elements from a row of the result to the next.
  FastDiv filter_rows, source_columns;
  int64_t destination_h;
  int32_t tiles;
};

// For a flattened() problem that declines() passes; none where the kernel does not take it.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan);

}  // namespace haloconv::pointwise
