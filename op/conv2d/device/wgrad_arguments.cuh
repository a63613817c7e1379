// Arguments of weight gradients whose partial sums lie in a workspace, passed by value.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/geometry/geometry.h"

namespace haloconv {

// wgrad: the partial sums of each split.
template <class T>
struct WgradArguments {
  using Acc = AccumulatorOf<T>;

  const T* input;
  const T* grad_output;
  Acc* partial;  // (split, group, row, column)
  uint32_t row_tiles, column_tiles;
  int64_t split_pixels;
  Wgrad geometry;
};

}  // namespace haloconv
