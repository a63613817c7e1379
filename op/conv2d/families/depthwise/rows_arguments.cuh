// What the kernel of depthwise.cuh is given, and how its blocks and threads share the outputs.
#pragma once

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/rows.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

template <class T>
struct DepthwiseArguments {
  const T* source;
  const T* filter;
  const T* bias;  // one value per destination channel, or null
  T* destination;
  Depthwise shape;
  Strides source_at, destination_at;
  int64_t filter_n, filter_group;  // from a destination channel to the next, from a group
  int32_t vector;                  // neighbouring outputs that are written at once: 1, 2 or 4
  bool in_one_piece;               // a block's outputs, which are gathered and then written
  Fusion fusion;
};

// A destination channel of one image, and the source channel that it sums.
struct Plane {
  int32_t image, channel, group;

  __device__ __forceinline__ Plane(const Depthwise& d, int32_t index)
      : image(d.channels.quotient(index)),
        channel(index - image * d.channels.divisor),
        group(d.rows.quotient(channel)) {}
};

// A block's first outputs, and its planes.
struct DepthwiseTile {
  int32_t h, w, plane, planes;

  __device__ __forceinline__ DepthwiseTile(const Depthwise& d, int32_t thread_rows) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    const int32_t rows = d.tiles_w.quotient(block);
    const int32_t tile_planes = d.tiles_h.quotient(rows);
    w = (block - rows * d.w.tiles) * d.w.threads * kDepthwiseColumns;
    h = (rows - tile_planes * d.h.tiles) * d.h.threads * thread_rows;
    plane = tile_planes * d.tile_planes;
    planes = min(d.tile_planes, d.planes - plane);
  }
};

// Rows of a thread's outputs.
template <class T>
inline constexpr int kDepthwiseRows = depthwise_rows(sizeof(T));

template <class T>
using DepthwiseSums = float[kDepthwiseRows<T>][kDepthwiseColumns];

}  // namespace haloconv::depthwise
