// fprop and dgrad of groups with one channel to sum over, along lines: lines.h. A thread has some
// vectors of outputs of a line, as far apart as the line has threads side by side, so that their
// sources are on the way at once.
#pragma once

#include "conv2d/families/depthwise/lines_results.cuh"

namespace haloconv::depthwise {

// A thread's line of the destination, and on it the first of its vectors.
struct LineThread {
  int32_t line, vector;
  bool exists;

  __device__ __forceinline__ LineThread(const Lines& d, int32_t vectors) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lines = d.line_tiles.quotient(block), of_block = d.line_threads.quotient(thread);
    line = lines * d.block_lines + of_block;
    vector = (block - lines * d.line_tiles.divisor) * d.line_threads.divisor * vectors +
             (thread - of_block * d.line_threads.divisor);
    exists = of_block < d.block_lines && line < d.lines;
  }
};

// Blocks of a multiprocessor that leave a thread the registers for its windows.
template <int kTaps, bool kLoops>
inline constexpr int kLineBlocks = kTaps <= 4 || kLoops ? 3 : 4;

// kLoops: there may be more taps than kTaps.
template <class T, int kTaps, bool kLoops, bool kFused>
__global__ void __launch_bounds__(kLineThreads, kLineBlocks<kTaps, kLoops>)
    depthwise_lines_kernel(const __grid_constant__ LinesArguments<T> args) {
  constexpr int kElements = kLineElements<T>, kVectors = line_vectors(kTaps, sizeof(T));
  constexpr int kCells = kElements + kTaps - 1;
  const Lines& d = args.shape;
  const LineThread at(d, kVectors);
  if (!at.exists) return;
  const int32_t image = d.channels.quotient(at.line);
  const int32_t channel = at.line - image * d.channels.divisor;
  const int32_t group = d.rows.quotient(channel);
  const T* const source = args.source + image * args.source_at.n + group * args.source_at.c;
  const T* const filter = args.filter + group * args.filter_group +
                          (channel - group * d.rows.divisor) * args.filter_n + d.filter_first;
  const int64_t line = image * args.destination_at.n + channel * args.destination_at.c;
  const int32_t phase = vector_phase(args.destination + line);
  const auto part = [&](int u) {
    return LinePart{(at.vector + u * d.line_threads.divisor) * kElements - phase, d.outputs};
  };

  // On its way with the first windows.
  const AfterSums<T> after(args.bias, args.fusion, channel);
  float sums[kVectors][kElements] = {};
  const int32_t tap_blocks = kLoops ? (d.taps + kTaps - 1) / kTaps : 1;
#pragma unroll(kTaps == 1 ? 2 : 1)
  for (int32_t i = 0; i < tap_blocks; ++i) {
    const int32_t taps = kLoops ? min(kTaps, d.taps - i * kTaps) : d.taps;
    const int32_t first = d.origin + i * (kTaps == 1 ? d.dilation : kTaps);
    LineWindow<T, kCells> windows[kVectors];
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      const LinePart outputs = part(u);
      windows[u].load(source, d.source_size, outputs.first + first, kElements + taps - 1,
                      outputs.first < d.outputs);
    }
    float weights[kTaps];
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      weights[t] = t < taps ? load(filter + (i * kTaps + t) * d.filter_step) : 0;
    }
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      float cells[kCells];
      windows[u].read(cells);
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        // A tap that the filter does not have would make NaN of an infinity.
        if (t >= taps) break;
#pragma unroll
        for (int x = 0; x < kElements; ++x) sums[u][x] += weights[t] * cells[x + t];
      }
    }
  }

#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
#pragma unroll
    for (int x = 0; x < kElements; ++x) sums[u][x] += after.bias;
  }
  if constexpr (kFused) fuse_lines(args.fusion, after, line, sums, part);
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    store_vector(args.destination + line + part(u).first, part(u), sums[u]);
  }
}

}  // namespace haloconv::depthwise
