// wgrad of groups with one channel, along lines: lines.h. A block has one channel of the output
// gradient, and some of its vectors in all images. A thread keeps sums of all weights over its
// vectors; then the block's are added in a fixed order.
#pragma once

#include "conv2d/families/depthwise/lines_results.cuh"
#include "conv2d/families/depthwise/warp_sum.cuh"

namespace haloconv::depthwise {

template <class T>
struct LinesWgradArguments {
  const T* input;
  const T* grad_output;
  // (split, channel, weight, and then the bias gradient if there is a column for it)
  float* partial;
  LinesWgrad shape;
  Strides input_at, output_at;
  FastDiv vectors;      // of a line
  int32_t columns;      // weights and bias gradient
  int32_t split_tiles;  // of a block
};

// Blocks of a multiprocessor that leave a thread the registers for its sums.
template <class T, int kTaps>
inline constexpr int kLineWgradBlocks = kTaps > 8        ? 2
                                        : sizeof(T) == 4 ? 3
                                                         : 4;

template <class T, int kTaps>
__global__ void __launch_bounds__(kLineThreads, kLineWgradBlocks<T, kTaps>)
    depthwise_lines_wgrad_kernel(const __grid_constant__ LinesWgradArguments<T> args) {
  constexpr int kElements = kLineElements<T>, kVectors = line_wgrad_vectors(kTaps, sizeof(T));
  constexpr int kCells = kElements + kTaps - 1;
  const LinesWgrad& d = args.shape;
  const auto block = static_cast<int32_t>(blockIdx.x), thread = static_cast<int32_t>(threadIdx.x);
  const auto threads = static_cast<int32_t>(blockDim.x);
  const int32_t rest = d.channels.quotient(block), channel = block - rest * d.channels.divisor;
  const int32_t split = d.tap_blocks.quotient(rest);
  const int32_t first_tap = (rest - split * d.tap_blocks.divisor) * kTaps;
  const int32_t taps = min(kTaps, d.taps - first_tap);
  const T* const input = args.input + d.rows.quotient(channel) * args.input_at.c;
  const T* const grad_output = args.grad_output + channel * args.output_at.c;

  const int32_t step = kVectors * threads, first = split * args.split_tiles * step;
  const int32_t last = min(first + args.split_tiles * step, d.images * args.vectors.divisor);
  float sums[kTaps] = {}, bias = 0;
#pragma unroll 1
  for (int32_t i = first + thread; i < last; i += step) {
    LineWindow<T, kElements> grads[kVectors];
    LineWindow<T, kCells> windows[kVectors];
    LinePart parts[kVectors];
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      const int32_t index = i + u * threads, image = args.vectors.quotient(index);
      const T* const line = grad_output + image * args.output_at.n;
      const bool exists = index < last;
      parts[u] = {(index - image * args.vectors.divisor) * kElements - vector_phase(line),
                  exists ? d.outputs : 0};
      grads[u].load(line, d.outputs, parts[u].first, kElements, exists);
      windows[u].load(input + image * args.input_at.n, d.source_size,
                      parts[u].first + d.origin + first_tap, kElements + taps - 1, exists);
    }
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      float grad[kElements], cells[kCells];
      grads[u].read(grad);
      windows[u].read(cells);
#pragma unroll
      for (int x = 0; x < kElements; ++x) bias += grad[x];
      // Gradients that do not exist are zero, which times an infinity would be NaN.
      const auto add = [&](auto is_met) {
#pragma unroll
        for (int x = 0; x < kElements; ++x) {
          if (!is_met(x)) continue;
#pragma unroll
          for (int t = 0; t < kTaps; ++t) sums[t] += grad[x] * cells[x + t];
        }
      };
      if (parts[u].template has_all<kElements>()) {
        add([](int) { return true; });
      } else {
        add([&](int x) { return parts[u].has(x); });
      }
    }
  }

  // Of each warp: the weights' sums and the bias's.
  __shared__ float of_warps[kLineThreads / 32][kTaps + 1];
  float* const of_warp = of_warps[thread / 32];
#pragma unroll
  for (int t = 0; t <= kTaps; ++t) {
    const float sum = sum_of_warp(t < kTaps ? sums[t < kTaps ? t : 0] : bias);
    if (thread % 32 == 0) of_warp[t] = sum;
  }
  __syncthreads();
  float* const to = args.partial + (int64_t{split} * d.channels.divisor + channel) * args.columns;
  for (int32_t t = thread; t <= kTaps; t += threads) {
    float sum = 0;
    for (int32_t warp = 0; warp < threads / 32; ++warp) sum += of_warps[warp][t];
    if (t < taps) to[first_tap + t] = sum;
    if (t == kTaps && first_tap == 0 && args.columns > d.taps) to[d.taps] = sum;
  }
}

}  // namespace haloconv::depthwise
