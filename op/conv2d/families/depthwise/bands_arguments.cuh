// What the depthwise kernel of band matrices is given.
#pragma once

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/bands.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

template <class T>
struct BandsArguments {
  const T* source;
  const T* filter;
  const T* bias;  // one value per channel, or null
  T* destination;
  Bands shape;
  Strides source_at, destination_at;
  int64_t filter_group;  // from a channel to the next
  Fusion fusion;
};

}  // namespace haloconv::depthwise
