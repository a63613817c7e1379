// fprop and dgrad of groups with one channel to sum over: a block brings windows of some planes to
// shared memory, and their filters; a thread keeps the sums of a rectangle of outputs, and reads
// each row of its part of a window once for all of them.
#pragma once

#include "conv2d/generic/depthwise_tile.cuh"
#include "conv2d/generic/fuse.cuh"

namespace haloconv::generic {

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

  __device__ __forceinline__ explicit DepthwiseTile(const Depthwise& d) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    const int32_t rows = d.tiles_w.quotient(block);
    const int32_t tile_planes = d.tiles_h.quotient(rows);
    w = (block - rows * d.w.tiles) * d.w.threads * kDepthwiseColumns;
    h = (rows - tile_planes * d.h.tiles) * d.h.threads * kDepthwiseRows;
    plane = tile_planes * d.tile_planes;
    planes = min(d.tile_planes, d.planes - plane);
  }
};

template <class T>
__device__ __forceinline__ void bring_windows(const DepthwiseArguments<T>& args,
                                              const DepthwiseTile& tile, float* shared) {
  const Depthwise& d = args.shape;
  const Rectangle windows = windows_of(d, tile.h, tile.w, tile.planes);
  bring<T>(d, windows, args.source_at.h, shared, [&](int32_t i) {
    const Plane plane(d, tile.plane + i);
    return args.source + plane.image * args.source_at.n + plane.group * args.source_at.c;
  });
}

// A row of a filter by a thread.
template <int kTaps, class T>
__device__ __forceinline__ void bring_filters(const DepthwiseArguments<T>& args,
                                              const DepthwiseTile& tile, float* shared) {
  const Depthwise& d = args.shape;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < tile.planes * d.h.taps;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t index = d.taps_h.quotient(i);
    const Plane plane(d, tile.plane + index);
    const T* const from = args.filter + plane.group * args.filter_group +
                          (plane.channel - plane.group * d.rows.divisor) * args.filter_n +
                          d.filter_first + (i - index * d.h.taps) * d.h.filter_step;
    float* const to = shared + d.filters_at + i * d.filter_pitch;
#pragma unroll
    for (int x = 0; x < kTaps; ++x) bring(to + x, from + x * d.w.filter_step, true);
  }
}

using DepthwiseSums = float[kDepthwiseRows][kDepthwiseColumns];

// kTaps: of a row of the filter. kStep: along rows.
template <int kTaps, int kStep>
__device__ __forceinline__ void sum_windows(const Depthwise& d, const float* window,
                                            const float* filter, DepthwiseSums& sums) {
  const int32_t rows = (kDepthwiseRows - 1) * d.h.step + d.h.taps;
#pragma unroll 1
  for (int32_t j = 0; j < rows; ++j, window += d.pitch) {
    float source[kRoundedTo4<(kDepthwiseColumns - 1) * kStep + kTaps>];
    read_row(window, source);
#pragma unroll
    for (int t = 0; t < kDepthwiseRows; ++t) {
      const int32_t tap = j - t * d.h.step;
      if (static_cast<uint32_t>(tap) >= static_cast<uint32_t>(d.h.taps)) continue;
      float weights[kRoundedTo4<kTaps>];
      read_row(filter + tap * d.filter_pitch, weights);
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
#pragma unroll
        for (int x = 0; x < kDepthwiseColumns; ++x) {
          sums[t][x] += weights[i] * source[x * kStep + i];
        }
      }
    }
  }
}

template <class T, int kVector>
__device__ __forceinline__ void store_row(T* to, const float (&values)[kDepthwiseColumns],
                                          int32_t count) {
  struct alignas(kVector * sizeof(T)) Neighbours {
    T values[kVector];
  };
#pragma unroll
  for (int i = 0; i < kDepthwiseColumns; i += kVector) {
    Neighbours neighbours;
#pragma unroll
    for (int j = 0; j < kVector; ++j) neighbours.values[j] = static_cast<T>(values[i + j]);
    if (i < count) *reinterpret_cast<Neighbours*>(to + i) = neighbours;
  }
}

template <class T>
__device__ __forceinline__ void store_sums(const DepthwiseArguments<T>& args, T* to, int32_t rows,
                                           int32_t columns, int32_t channel,
                                           const DepthwiseSums& sums) {
  const float bias = args.bias == nullptr ? -0.0f : load(args.bias + channel);
#pragma unroll
  for (int t = 0; t < kDepthwiseRows; ++t, to += args.destination_at.h) {
    if (t >= rows) return;
    float values[kDepthwiseColumns];
#pragma unroll
    for (int x = 0; x < kDepthwiseColumns; ++x) values[x] = sums[t][x] + bias;
    if (args.vector == 4) {
      store_row<T, 4>(to, values, columns);
    } else if (args.vector == 2) {
      store_row<T, 2>(to, values, columns);
    } else {
#pragma unroll
      for (int x = 0; x < kDepthwiseColumns; ++x) {
        if (x < columns) store(to + x, values[x]);
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void store_fused_sums(const DepthwiseArguments<T>& args, int64_t offset,
                                                 int32_t rows, int32_t columns, int32_t channel,
                                                 DepthwiseSums& sums) {
  static_assert(kDepthwiseColumns == kFusedAtOnce);
  // A loop, so that each activation's code is there once: the sums come to the first row.
#pragma unroll 1
  for (int32_t t = 0; t < rows; ++t, offset += args.destination_at.h) {
    OutputElement elements[kFusedAtOnce];
    float values[kFusedAtOnce];
#pragma unroll
    for (int x = 0; x < kFusedAtOnce; ++x) {
      elements[x] = {x < columns, channel, offset + x};
      values[x] = sums[0][x];
#pragma unroll
      for (int next = 1; next < kDepthwiseRows; ++next) sums[next - 1][x] = sums[next][x];
    }
    store_fused(args, values, elements);
  }
}

template <class T, int kTaps, int kStep, bool kFused>
__global__ void __launch_bounds__(kDepthwiseThreads, 4)
    depthwise_kernel(const __grid_constant__ DepthwiseArguments<T> args) {
  const Depthwise& d = args.shape;
  extern __shared__ __align__(16) float depthwise_shared[];
  const DepthwiseTile tile(d);
  bring_windows(args, tile, depthwise_shared);
  bring_filters<kTaps>(args, tile, depthwise_shared);
  commit_copies();
  wait_for_all_but<0>();
  __syncthreads();

  const DepthwiseThread at(d);
  const int32_t rows = min(kDepthwiseRows, d.h.outputs - tile.h - at.h);
  const int32_t columns = min(kDepthwiseColumns, d.w.outputs - tile.w - at.w);
  if (at.plane >= tile.planes || rows <= 0 || columns <= 0) return;

  DepthwiseSums sums = {};
  sum_windows<kTaps, kStep>(
      d, depthwise_shared + at.plane * d.plane_pitch + at.h * d.h.step * d.pitch + at.w * kStep,
      depthwise_shared + d.filters_at + at.plane * d.h.taps * d.filter_pitch, sums);
  const Plane plane(d, tile.plane + at.plane);
  const int64_t offset = plane.image * args.destination_at.n +
                         plane.channel * args.destination_at.c +
                         (tile.h + at.h) * args.destination_at.h + (tile.w + at.w);
  if constexpr (kFused) {
    store_fused_sums(args, offset, rows, columns, plane.channel, sums);
  } else {
    store_sums(args, args.destination + offset, rows, columns, plane.channel, sums);
  }
}

}  // namespace haloconv::generic
