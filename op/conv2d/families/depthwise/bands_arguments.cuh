// What the depthwise kernel of band matrices is given.
#pragma once

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/bands.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

template <class T>
struct BandsArguments {
  static constexpr bool by_pairs = false;  // of single channels in channel_pair.cuh

  const T* source;
  const T* filter;
  const T* bias;  // one value per channel, or null
  T* destination;
  Bands shape;
  Strides source_at, destination_at;
  // Bytes, as addresses are counted on: an instruction takes them where they are, and no register
  // holds them. From a row or a pixel to the next;
  int64_t source_row_bytes, source_pixel_bytes, destination_row_bytes, destination_pixel_bytes;
  // of a row that has come to shared memory, the first or the second pixels of all pairs, and all
  // of it.
  int32_t half_row_bytes, row_bytes;
  int64_t filter_group;  // from a channel to the next
  Fusion fusion;
};

}  // namespace haloconv::depthwise
