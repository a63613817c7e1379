// The filter's gradient for inputs with few channels: grad_filter = grad_output * units, over
// pixels. The product's rows are channels of grad_output, its columns elements of units. Units have
// these innermost, and grad_output channels or pixels; the matrix instruction takes all of that in
// 16-bit types. The bias's gradient is the column of a channel that is 1 everywhere.
#pragma once

#include "conv2d/families/first_layers/block_work.cuh"
#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/line_rows.cuh"
#include "conv2d/families/first_layers/operands.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::first_layers {

// The last warp copies grad_output.
inline constexpr int kWgradThreads = (kMathGroups * 4 + kOtherWarps) * 32;
inline constexpr int kPixelsOfTile = 128;
inline constexpr int kBoxBytes = kPixelsOfTile * 128;  // of 64 output channels
inline constexpr int kHalfBytes = kBoxBytes / 2;       // of 64 pixels

struct WgradBarriers {
  RowBarriers rows;
  uint64_t full[kMaxStages], empty[kMaxStages];
};

template <class T, int kColumns, int kRows>
using FilterSums = float[kRows][kColumns / 2];

// A tile's products, over the rows and steps of 16 columns that grad_output has.
template <class T, int kColumns, int kRows, bool kRowsInnermost>
__device__ __forceinline__ void multiply_tile(const WgradArguments& args, const RowConsumer& rows,
                                              uint32_t ring, uint32_t grad_output, int32_t group,
                                              int32_t tile_rows, int32_t steps,
                                              FilterSums<T, kColumns, kRows>& sums) {
  const Sweep& sweep = args.sweep;
  const int32_t first = args.splits_rows ? group : 0, step = args.splits_rows ? 2 : 1;
  const int32_t own_rows = (sweep.r - first + step - 1) / step;
  for (int32_t tile_row = 0; tile_row < tile_rows; ++tile_row) {
    uint32_t at[kRows];  // of units
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int32_t r = min(i, own_rows - 1) * step + first;
      at[i] = ring + sweep.units.group[0].unit * kUnitBytes +
              rows.slot(tile_row * sweep.stride_h + r * sweep.dilation_h) * sweep.row_bytes;
    }
    // With rows innermost 64 pixels of a channel are 128 bytes, else a pixel's 64 channels are.
    uint32_t pixels = grad_output + tile_row * sweep.columns * 128;
    int32_t left = steps, of_half = 4;
    do {
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (i < own_rows) {
          wgmma_shared<T, kColumns, !kRowsInnermost, true>(sums[i], pixel_operand(pixels),
                                                           group_operand(at[i], args.group_bytes));
        }
        at[i] += 16 * kUnitBytes;
      }
      if constexpr (kRowsInnermost) {
        pixels += 16 * 2;
        if (--of_half == 0) pixels += kHalfBytes - 128;
      } else {
        pixels += 16 * 128;
      }
    } while (--left > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_settle(sums);
}

template <bool kRowsInnermost>
__device__ __forceinline__ void copy_grad_output(const WgradArguments& args, const CUtensorMap& map,
                                                 uint32_t stages, WgradBarriers& barriers,
                                                 int32_t first_channel, int32_t first_tile,
                                                 int32_t end_tile) {
  const int32_t boxes = args.splits_rows ? 1 : 2;
  RingPosition at;
  for (int32_t tile = first_tile; tile < end_tile; ++tile) {
    const TilePlace place(args.sweep, tile);
    mbarrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
    expect_bytes(&barriers.full[at.stage], static_cast<uint32_t>(boxes * kBoxBytes));
    const uint32_t full = shared_address_of(&barriers.full[at.stage]);
    const int32_t q = place.strip * args.sweep.columns, p = place.band * args.sweep.tile_rows;
    for (int32_t i = 0; i < boxes; ++i) {
      const uint32_t to = stages + (at.stage * boxes + i) * kBoxBytes;
      const int32_t channel = first_channel + 64 * i;
      if constexpr (kRowsInnermost) {
        const bool is_one_row = args.sweep.tile_rows == 1;
        copy_box(to, &map, full, q, channel, p, place.image);
        copy_box(to + kHalfBytes, &map, full, q + (is_one_row ? 64 : 0), channel,
                 p + (is_one_row ? 0 : 1), place.image);
      } else {
        copy_box(to, &map, full, channel, q, p, place.image);
      }
    }
    at.advance(args.grad_output_stages);
  }
}

template <class T, int kColumns, int kRows, bool kRowsInnermost>
__global__ void __launch_bounds__(kWgradThreads, 1)
    wgrad_kernel(const __grid_constant__ CUtensorMap map,
                 const __grid_constant__ WgradArguments args) {
  extern __shared__ unsigned char shared_base[];
  __shared__ WgradBarriers barriers;
  const Sweep& sweep = args.sweep;
  const uint32_t base = shared_address_of(shared_base);
  unsigned char* const stages = shared_base + ((base + 1023) / 1024 * 1024 - base);
  const int32_t boxes = args.splits_rows ? 1 : 2;
  unsigned char* const ring = stages + args.grad_output_stages * boxes * kBoxBytes;
  const WgradWork work(args);
  const int32_t warp = this_warp();
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&map);
    barriers.rows.init(sweep.ring);
    for (int32_t i = 0; i < args.grad_output_stages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp == kMathGroups * 4 + kOtherWarps - 1) {
    if (threadIdx.x % 32 == 0) {
      copy_grad_output<kRowsInnermost>(args, map, shared_address_of(stages), barriers,
                                       work.channel_tile * boxes * 64, work.first_tile,
                                       work.end_tile);
    }
    return;
  }
  if (warp >= kMathGroups * 4) {
    bring_rows<T, kOtherWarps - 1>(sweep, ring, ring + args.rows_bytes, barriers.rows,
                                   warp - kMathGroups * 4, work.first_tile, work.end_tile);
    return;
  }
  const int32_t group = warp / 4;
  RowConsumer rows(sweep, barriers.rows);
  RingPosition at;
  FilterSums<T, kColumns, kRows> sums = {};
  for (int32_t tile = work.first_tile; tile < work.end_tile; ++tile) {
    const TilePlace place(sweep, tile);
    const int32_t done = rows_done_after(sweep, place, tile + 1 == work.end_tile);
    rows.wait(max(sweep.rows_of_tile(), done));
    mbarrier_wait(&barriers.full[at.stage], at.parity);
    const int32_t tile_rows = min(sweep.tile_rows, sweep.p - place.band * sweep.tile_rows);
    const int32_t columns = min(sweep.columns, sweep.q - place.strip * sweep.columns);
    multiply_tile<T, kColumns, kRows, kRowsInnermost>(
        args, rows, shared_address_of(ring),
        shared_address_of(stages) + (at.stage * boxes + (args.splits_rows ? 0 : group)) * kBoxBytes,
        group, tile_rows, (columns + 15) / 16, sums);
    if (threadIdx.x % 32 == 0) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.empty[at.stage]);
    }
    at.advance(args.grad_output_stages);
    rows.release(done);
  }
  constexpr int kMathThreads = kMathGroups * 128;
  float* to = args.partial +
              (int64_t{work.run} * args.channel_tiles + work.channel_tile) *
                  (kRows * kColumns / 2) * kMathThreads +
              threadIdx.x;
#pragma unroll
  for (const auto& row : sums) {
#pragma unroll
    for (const float sum : row) {
      *to = sum;
      to += kMathThreads;
    }
  }
}

}  // namespace haloconv::sm90::first_layers
