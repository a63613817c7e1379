// The depthwise kernel's sums on their way to the output.
#pragma once

#include "conv2d/device/fuse.cuh"
#include "conv2d/families/depthwise/rows_arguments.cuh"
#include "conv2d/families/depthwise/rows_tile.cuh"

namespace haloconv::depthwise {

// By kVector neighbours: `columns` are a multiple.
template <int kVector, class T>
__device__ __forceinline__ void store_rows(const DepthwiseArguments<T>& args, T* to, int32_t rows,
                                           int32_t columns, float bias,
                                           const DepthwiseSums<T>& sums) {
  struct alignas(kVector * sizeof(T)) Neighbours {
    T values[kVector];
  };
#pragma unroll
  for (int t = 0; t < kDepthwiseRows<T>; ++t, to += args.destination_at.h) {
    if (t >= rows) return;
#pragma unroll
    for (int x = 0; x < kDepthwiseColumns; x += kVector) {
      Neighbours neighbours;
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        neighbours.values[i] = static_cast<T>(sums[t][x + i] + bias);
      if (kVector == kDepthwiseColumns || x < columns) {
        *reinterpret_cast<Neighbours*>(to + x) = neighbours;
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void store_sums(const DepthwiseArguments<T>& args, T* to, int32_t rows,
                                           int32_t columns, int32_t channel,
                                           const DepthwiseSums<T>& sums) {
  const float bias = args.bias == nullptr ? -0.0f : load(args.bias + channel);
  switch (args.vector) {
    case 4:
      return store_rows<4>(args, to, rows, columns, bias, sums);
    case 2:
      return store_rows<2>(args, to, rows, columns, bias, sums);
    default:
      return store_rows<1>(args, to, rows, columns, bias, sums);
  }
}

template <class T>
__device__ __forceinline__ void store_fused_sums(const DepthwiseArguments<T>& args, int64_t offset,
                                                 int32_t rows, int32_t columns, int32_t channel,
                                                 DepthwiseSums<T>& sums) {
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
      for (int next = 1; next < kDepthwiseRows<T>; ++next) sums[next - 1][x] = sums[next][x];
    }
    store_fused(args, values, elements);
  }
}

// Writes the outputs of a block's planes, of which a thread has the sums of one where `active`.
// They go through shared memory, once all threads have read what lies there.
template <class T>
__device__ __forceinline__ void store_in_one_piece(const DepthwiseArguments<T>& args,
                                                   const DepthwiseTile& tile,
                                                   const DepthwiseThread& at, bool active,
                                                   int32_t rows, int32_t columns,
                                                   const DepthwiseSums<T>& sums, T* shared) {
  constexpr int32_t kElements = 16 / sizeof(T);
  const Depthwise& d = args.shape;
  const int64_t plane = args.destination_at.c;
  T* const to = args.destination + tile.plane * plane;
  const auto phase = static_cast<int32_t>(reinterpret_cast<uintptr_t>(to) / sizeof(T) % kElements);
  const int32_t end = phase + tile.planes * static_cast<int32_t>(plane);
  __syncthreads();
  if (active) {
    const Plane of(d, tile.plane + at.plane);
    const float bias = args.bias == nullptr ? -0.0f : load(args.bias + of.channel);
    T* const first = shared + phase + at.plane * plane + at.h * d.w.outputs + at.w;
#pragma unroll
    for (int t = 0; t < kDepthwiseRows<T>; ++t) {
      if (t >= rows) break;
#pragma unroll
      for (int x = 0; x < kDepthwiseColumns; ++x) {
        if (x < columns) first[t * d.w.outputs + x] = static_cast<T>(sums[t][x] + bias);
      }
    }
  }
  __syncthreads();
  for (auto i = static_cast<int32_t>(threadIdx.x) * kElements; i < end;
       i += static_cast<int32_t>(blockDim.x) * kElements) {
    if (i >= phase && i + kElements <= end) {
      *reinterpret_cast<uint4*>(to + (i - phase)) = *reinterpret_cast<const uint4*>(shared + i);
    } else {
      for (int32_t j = max(i, phase); j < min(i + kElements, end); ++j) to[j - phase] = shared[j];
    }
  }
}

}  // namespace haloconv::depthwise
