// fprop and dgrad of groups with one channel to sum over: a block brings windows of some planes to
// shared memory, and their filters; a thread keeps the sums of a rectangle of outputs, and reads
// each row of its part of a window once for all of them.
#pragma once

#include "conv2d/families/depthwise/packed_cells.cuh"
#include "conv2d/families/depthwise/rows_results.cuh"

namespace haloconv::depthwise {

// What of a row kDepthwiseColumns neighbouring outputs meet: depthwise_axes.h's axis along rows.
template <int kOfTaps, int kOfStep, int kOfUpsampling, int kOfTapPhase>
struct DepthwiseRow {
  static constexpr int kTaps = kOfTaps, kStep = kOfStep, kUpsampling = kOfUpsampling,
                       kTapPhase = kOfTapPhase;
  static constexpr int kAlignment = kDepthwiseColumns / kUpsampling;  // of a thread's first cell

  // Cells that so many neighbouring outputs meet.
  template <int kOutputs>
  static constexpr int kCellsOf =
      ((kOutputs - 1) * kStep + kTaps - 1 + kTapPhase) / kUpsampling + 1;
  static constexpr int kCells = kCellsOf<kDepthwiseColumns>;
};

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
    for (int x = 0; x < kTaps; ++x) {
      if constexpr (sizeof(T) == sizeof(float)) {
        bring<uint32_t>(to + x, from + x * d.w.filter_step, true);
      } else {
        to[x] = load(from + x * d.w.filter_step);
      }
    }
  }
}

template <class Row>
__device__ __forceinline__ void add_row(const float* filter, const float (&cells)[Row::kCells],
                                        float (&sums)[kDepthwiseColumns]) {
  float weights[kRoundedTo4<Row::kTaps>];
  read_row<4>(filter, weights);
#pragma unroll
  for (int i = 0; i < Row::kTaps; ++i) {
#pragma unroll
    for (int x = 0; x < kDepthwiseColumns; ++x) {
      const int at = x * Row::kStep + i + Row::kTapPhase;
      if (at % Row::kUpsampling == 0) sums[x] += weights[i] * cells[at / Row::kUpsampling];
    }
  }
}

template <class Row, int kRows, class Rows>
__device__ __forceinline__ void sum_windows(const Depthwise& d, const Rows& window,
                                            const float* filter,
                                            float (&sums)[kRows][kDepthwiseColumns]) {
  float cells[Row::kCells];
  // A square filter's taps of a row are known.
  if (d.h.taps == Row::kTaps && d.h.step == Row::kStep && d.h.upsampling == Row::kUpsampling &&
      d.h.tap_phase == Row::kTapPhase) {
#pragma unroll
    for (int j = 0; j < Row::template kCellsOf<kRows>; ++j) {
      window.read(j, cells);
#pragma unroll
      for (int t = 0; t < kRows; ++t) {
        const int tap = j * Row::kUpsampling - t * Row::kStep - Row::kTapPhase;
        if (tap < 0 || tap >= Row::kTaps) continue;
        add_row<Row>(filter + tap * kRoundedTo4<Row::kTaps>, cells, sums[t]);
      }
    }
    return;
  }
  const int32_t rows = d.h.cells(kRows);
#pragma unroll 1
  for (int32_t j = 0; j < rows; ++j) {
    window.read(j, cells);
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      const int32_t tap = j * d.h.upsampling - t * d.h.step - d.h.tap_phase;
      if (static_cast<uint32_t>(tap) >= static_cast<uint32_t>(d.h.taps)) continue;
      add_row<Row>(filter + tap * d.filter_pitch, cells, sums[t]);
    }
  }
}

// Blocks of a multiprocessor: as many as leave a thread registers for what it keeps of a filter.
template <class Row>
inline constexpr int kDepthwiseBlocks = Row::kTaps == 7                     ? 2
                                        : Row::kTaps > 3 || Row::kStep == 2 ? 3
                                                                            : 4;

template <class T, class Row, bool kFused>
__global__ void __launch_bounds__(kDepthwiseThreads, kDepthwiseBlocks<Row>)
    depthwise_kernel(const __grid_constant__ DepthwiseArguments<T> args) {
  const Depthwise& d = args.shape;
  extern __shared__ __align__(16) float depthwise_shared[];
  T* const windows = reinterpret_cast<T*>(depthwise_shared);
  const DepthwiseTile tile(d, kDepthwiseRows<T>);
  const Rectangle window = windows_of(d, tile.h, tile.w, tile.planes, args.source_at.h);
  const auto source_of = [&](const Plane& plane) {
    return args.source + plane.image * args.source_at.n + plane.group * args.source_at.c;
  };
  const DepthwiseThread at(d, kDepthwiseRows<T>);
  bring(d, window, d.windows, at, windows,
        [&](int32_t i) { return source_of(Plane(d, tile.plane + i)); });
  bring_filters<Row::kTaps>(args, tile, depthwise_shared);
  commit_copies();
  wait_for_all_but<0>();
  __syncthreads();

  const int32_t rows = min(kDepthwiseRows<T>, d.h.outputs - tile.h - at.h);
  const int32_t columns = min(kDepthwiseColumns, d.w.outputs - tile.w - at.w);
  const bool active = at.plane < tile.planes && rows > 0 && columns > 0;
  if (!active && !args.in_one_piece) return;

  const Plane plane(d, tile.plane + min(at.plane, tile.planes - 1));
  DepthwiseSums<T> sums = {};
  if (active) {
    const RowsOf<T, Row::kCells, Row::kAlignment> part(window, d.windows, windows, source_of(plane),
                                                       at.plane, d.h.advance(at.h),
                                                       at.w * Row::kStep / Row::kUpsampling);
    sum_windows<Row>(d, part,
                     depthwise_shared + d.filters_at + at.plane * d.h.taps * d.filter_pitch, sums);
  }
  if (!kFused && args.in_one_piece) {
    return store_in_one_piece(args, tile, at, active, rows, columns, sums, windows);
  }
  const int64_t offset = plane.image * args.destination_at.n +
                         plane.channel * args.destination_at.c +
                         (tile.h + at.h) * args.destination_at.h + (tile.w + at.w);
  if constexpr (kFused) {
    store_fused_sums(args, offset, rows, columns, plane.channel, sums);
  } else {
    store_sums(args, args.destination + offset, rows, columns, plane.channel, sums);
  }
}

}  // namespace haloconv::depthwise
