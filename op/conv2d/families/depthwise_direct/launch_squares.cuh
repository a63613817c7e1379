// Channels innermost: plan.h. Each file of instances has the kernels of one element type.
#pragma once

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "conv2d/device/grid.h"
#include "conv2d/families/depthwise_direct/results.cuh"
#include "cuda/check.h"

namespace haloconv::depthwise_direct {

// (tap, channel)
template <int kSide, class T>
__device__ __forceinline__ void bring_filters(const KernelArguments<T>& args, int32_t first_channel,
                                              float* shared) {
  const Arguments& d = args.shape;
  constexpr int kTaps = kSide * kSide;
  const int32_t lanes = d.lanes.divisor, channels = min(lanes, d.channels - first_channel);
  const T* const from = args.filter + d.filter_first + first_channel * d.filter_channel;
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < channels * kTaps;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t channel = i / kTaps, tap = i % kTaps;  // a channel's lie side by side
    shared[tap * lanes + channel] =
        load(from + channel * d.filter_channel + tap / kSide * d.filter_row +
             tap % kSide * d.filter_column);
  }
}

template <class T, int kSide, int kStride, bool kFused>
__global__ void __launch_bounds__(kBlockThreads, kSide < 5 ? 3 : 2)
    depthwise_squares(const __grid_constant__ KernelArguments<T> args) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  constexpr int kSums = kSquareSide * kSquareSide;
  constexpr int kWindow = (kSquareSide - 1) * kStride + kSide;  // rows, and columns
  const Arguments& d = args.shape;
  extern __shared__ __align__(16) float depthwise_squares_filters[];
  const auto block = static_cast<int32_t>(blockIdx.x), thread = static_cast<int32_t>(threadIdx.x);
  const int32_t square_block = d.channel_tiles.quotient(block);
  const int32_t first_channel = (block - square_block * d.channel_tiles.divisor) * d.lanes.divisor;
  const int32_t of_block = d.lanes.quotient(thread);
  const int32_t lane = thread - of_block * d.lanes.divisor, channel = first_channel + lane;
  const int32_t square = square_block * d.block_squares + of_block;
  const int32_t square_row = d.column_tiles.quotient(square);
  const int32_t image = d.row_tiles.quotient(square_row);
  const int32_t p = (square_row - image * d.row_tiles.divisor) * kSquareSide;
  const int32_t q = (square - square_row * d.column_tiles.divisor) * kSquareSide;
  const bool exists = square < d.tiles && channel < d.channels;

  // On their way while the filters come.
  const int32_t h = p * kStride - d.pad_top, w = q * kStride - d.pad_left;
  const auto* const source = reinterpret_cast<const Bits*>(args.source) + image * d.source.n +
                             h * d.source.h + w * d.source.w + channel;
  Bits window[kWindow][kWindow];
#pragma unroll
  for (int i = 0; i < kWindow; ++i) {
    const bool has_row = exists && static_cast<uint32_t>(h + i) < static_cast<uint32_t>(d.h);
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
      const bool inside = has_row && static_cast<uint32_t>(w + j) < static_cast<uint32_t>(d.w);
      window[i][j] = inside ? __ldg(source + i * d.source.h + j * d.source.w) : Bits{0};
    }
  }
  bring_filters<kSide>(args, first_channel, depthwise_squares_filters);
  __syncthreads();
  if (!exists) return;

  float sums[kSums] = {};
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int s = 0; s < kSide; ++s) {
      const float weight = depthwise_squares_filters[(r * kSide + s) * d.lanes.divisor + lane];
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const Bits bits = window[i / kSquareSide * kStride + r][i % kSquareSide * kStride + s];
        T value;
        memcpy(&value, &bits, sizeof(value));
        sums[i] = fmaf(static_cast<float>(value), weight, sums[i]);
      }
    }
  }
  const int64_t offset = image * d.result.n + p * d.result.h + q * d.result.w + channel;
  OutputElement elements[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int row = i / kSquareSide, column = i % kSquareSide;
    elements[i] = {p + row < d.p && q + column < d.q, channel,
                   offset + row * d.result.h + column * d.result.w};
  }
  write_sums<kFused>(args, channel, sums, elements);
}

template <class T>
void launch_squares(const Plan& plan, const KernelArguments<T>& args, cudaStream_t stream) {
  const auto start = [&]<int kSide, int kStride>() {
    const auto kernel = args.fusion.is_none() ? depthwise_squares<T, kSide, kStride, false>
                                              : depthwise_squares<T, kSide, kStride, true>;
    kernel<<<grid_blocks(plan.blocks), plan.threads, plan.shared_bytes(), stream>>>(args);
    check_launch("depthwise_direct squares");
  };
  switch (plan.side * 10 + plan.stride) {
    case 31:
      return start.template operator()<3, 1>();
    case 32:
      return start.template operator()<3, 2>();
    case 42:
      return start.template operator()<4, 2>();
    case 51:
      return start.template operator()<5, 1>();
    case 52:
      return start.template operator()<5, 2>();
    case 71:
      return start.template operator()<7, 1>();
  }
  throw std::logic_error("haloconv: depthwise_direct has no kernel of this filter");
}

}  // namespace haloconv::depthwise_direct
