// fprop and dgrad for groups of few rows (depthwise). There is hardly a matrix product, so a thread
// sums kRows channels of kDirectThreadPixels pixels by itself.
#pragma once

#include "conv2d/device/fuse.cuh"
#include "conv2d/families/generic/gather_tile.cuh"
#include "conv2d/families/generic/plan.h"

namespace haloconv::generic {

// Taps that are brought to shared memory at a time, and summed before they are added to the sum so
// far: float32 error grows with this number and with the number of sums, not with their product.
inline constexpr int kDirectStep = 64;

// Neighbouring threads have neighbouring pixels; a block has one group.
template <class T, int kRows, bool kFused>
__global__ void __launch_bounds__(kDirectThreads)
    gather_direct_kernel(const __grid_constant__ GatherArguments<T> args) {
  using Acc = AccumulatorOf<T>;
  constexpr int kPixels = kDirectThreadPixels;
  const Gather& g = args.geometry;
  const GatherTile at(args, kRows, kDirectPixels);
  const Phase& phase = args.phases[at.phase];
  __shared__ Site taps[kDirectStep];
  __shared__ Acc filter[kDirectStep][kRows];

  const T* source = args.source + int64_t{at.group} * g.channels * g.source.c;
  const Acc* packed =
      args.packed + at.group * args.packed_group + phase.packed_offset * args.packed_pitch + at.row;
  const PixelRange range(at.pixel, phase.plane, phase.columns);
  const auto index = [](int i) { return static_cast<int>(threadIdx.x) + i * kDirectThreads; };
  Site pixels[kPixels];
#pragma unroll
  for (int i = 0; i < kPixels; ++i) {
    const bool exists = at.pixel + index(i) < phase.pixels;
    pixels[i] = exists ? gather_pixel(g, phase, range[index(i)]) : outside();
  }

  Acc acc[kPixels][kRows] = {};
  for (int32_t first = 0; first < phase.reduction; first += kDirectStep) {
    const int count = min(kDirectStep, phase.reduction - first);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kDirectThreads) {
      taps[i] = gather_tap(g, phase, first + i);
    }
    for (int i = threadIdx.x; i < count * kRows; i += kDirectThreads) {
      filter[i / kRows][i % kRows] =
          packed[int64_t{first + i / kRows} * args.packed_pitch + i % kRows];
    }
    __syncthreads();
    Acc part[kPixels][kRows] = {};
#pragma unroll 4
    for (int k = 0; k < count; ++k) {
      const Site tap = taps[k];
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        const Acc value = gather_element(source, pixels[i], tap, g.source_h, g.source_w);
#pragma unroll
        for (int row = 0; row < kRows; ++row) part[i][row] += filter[k][row] * value;
      }
    }
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) acc[i][row] += part[i][row];
    }
  }

  if constexpr (kFused) {
    static_assert(kPixels == kFusedAtOnce);
    OutputElement elements[kPixels];
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const int64_t channel = int64_t{at.group} * g.rows + at.row;
      elements[i] = {
          .exists = at.pixel + index(i) < phase.pixels,
          .channel = channel,
          .offset = destination_pixel(g, phase, range[index(i)]) + channel * g.destination.c};
    }
    // A loop, so that each activation's code is there once: sums are moved to the first row.
#pragma unroll 1
    for (int row = at.row; row < min(at.row + kRows, g.rows); ++row) {
      Acc values[kPixels];
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        values[i] = acc[i][0];
#pragma unroll
        for (int r = 1; r < kRows; ++r) acc[i][r - 1] = acc[i][r];
      }
      store_fused(args, values, elements);
#pragma unroll
      for (OutputElement& element : elements) {
        ++element.channel;
        element.offset += g.destination.c;
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      if (at.pixel + index(i) >= phase.pixels) return;
      const int64_t offset = destination_pixel(g, phase, range[index(i)]);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (at.row + row >= g.rows) break;
        const int64_t channel = int64_t{at.group} * g.rows + at.row + row;
        Acc value = acc[i][row];
        if (args.bias != nullptr) value += load(args.bias + channel);
        store(args.destination + (offset + channel * g.destination.c), value);
      }
    }
  }
}

}  // namespace haloconv::generic
