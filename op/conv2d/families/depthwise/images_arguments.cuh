// What the depthwise kernel of weight gradients by eights of images is given.
#pragma once

#include "conv2d/families/depthwise/images.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

template <class T>
struct ImagesArguments {
  const T* input;
  const T* grad_output;
  // (split, channel, weight, and then the bias gradient if there is a column for it)
  float* partial;
  Images shape;
  Strides input_at, output_at;
  int64_t images;
  int32_t columns;      // weights and bias gradient
  int32_t split_tiles;  // of a block
};

}  // namespace haloconv::depthwise
