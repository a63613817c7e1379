// wgrad from rows as they lie: plain_wgrad.h. One thread asks the copy engine for rows and for
// grad_output.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/first_layers/block_work.cuh"
#include "conv2d/families/first_layers/operands.h"
#include "conv2d/families/first_layers/plain_wgrad.h"
#include "conv2d/families/first_layers/row_ring.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_turned.cuh"

namespace haloconv::sm90::first_layers {

struct PlainWgradBarriers {
  RowBarriers rows;
  uint64_t full[kMaxStages], empty[kMaxStages];

  __device__ __forceinline__ void init(int32_t ring, int32_t stages, uint32_t warps) {
    for (int32_t i = 0; i < ring; ++i) {
      cuda::ptx::mbarrier_init(&rows.full[i], 1);
      cuda::ptx::mbarrier_init(&rows.empty[i], warps);
    }
    for (int32_t i = 0; i < stages; ++i) {
      cuda::ptx::mbarrier_init(&full[i], 1);
      cuda::ptx::mbarrier_init(&empty[i], warps);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
};

inline constexpr int kChunkBytes = 128 * kPlainChunk * 2;  // of a tile's pixels

// For each tile, its rows that no tile before it brought, then its pixels of grad_output.
__device__ __forceinline__ void bring_tiles(const PlainWgradArguments& args,
                                            const CUtensorMap& rows_map,
                                            const CUtensorMap& grad_output_map, uint32_t ring,
                                            uint32_t stages, PlainWgradBarriers& barriers,
                                            int32_t first_channel, int32_t first_tile,
                                            int32_t end_tile) {
  const Sweep& sweep = args.wgrad.sweep;
  const PlainRows& plain = args.rows;
  RingPosition at, stage;
  int32_t row = 0;
  for (int32_t tile = first_tile; tile < end_tile; ++tile) {
    const TilePlace place(sweep, tile);
    const bool begins = tile == first_tile || place.band == 0;
    if (begins) row = place.band * sweep.tile_rows * sweep.stride_h - sweep.pad_top;
    const int32_t first = place.strip * sweep.columns * plain.pixel_step -
                          sweep.pad_left * args.wgrad.c - plain.shift;
    for (int32_t left = begins ? sweep.rows_of_tile() : sweep.rows_to_next(); left > 0; --left) {
      uint64_t* const full = &barriers.rows.full[at.stage];
      mbarrier_wait(&barriers.rows.empty[at.stage], at.parity ^ 1);
      expect_bytes(full, static_cast<uint32_t>(plain.row_bytes()));
      for (int32_t i = 0; i < plain.boxes; ++i) {
        copy_box(ring + at.stage * sweep.row_bytes + i * plain.box * 8, &rows_map,
                 shared_address_of(full), first / kCopiedElements + i * plain.box, row,
                 place.image);
      }
      at.advance(sweep.ring);
      ++row;
    }
    uint64_t* const full = &barriers.full[stage.stage];
    mbarrier_wait(&barriers.empty[stage.stage], stage.parity ^ 1);
    expect_bytes(full, static_cast<uint32_t>(args.chunks * kChunkBytes));
    for (int32_t i = 0; i < args.chunks; ++i) {
      copy_box(stages + (stage.stage * args.chunks + i) * kChunkBytes, &grad_output_map,
               shared_address_of(full), first_channel + i * kPlainChunk,
               place.strip * sweep.columns, place.band * sweep.tile_rows, place.image);
    }
    stage.advance(args.wgrad.grad_output_stages);
  }
}

// Two neighbouring pixels' elements as a word.
__device__ __forceinline__ uint32_t load_pair(uint32_t at, uint32_t pixel_bytes) {
  uint16_t first, second;
  load_shared_bits(at, first);
  load_shared_bits(at + pixel_bytes, second);
  return uint32_t{first} | uint32_t{second} << 16;
}

// A thread's part of the operand of 16 pixels; its own first pixel is at at[half].
__device__ __forceinline__ uint4 load_pixels(const uint32_t (&at)[2], uint32_t pixel_bytes) {
  const uint32_t far = 8 * pixel_bytes;
  return {load_pair(at[0], pixel_bytes), load_pair(at[1], pixel_bytes),
          load_pair(at[0] + far, pixel_bytes), load_pair(at[1] + far, pixel_bytes)};
}

// The same with ones in the row of ones.
template <class T>
__device__ __forceinline__ uint4 with_ones(const uint4& words, const PlainRowPlace (&own)[2]) {
  const T one(1.0f);
  const uint32_t ones = reinterpret_cast<const uint16_t&>(one) * 0x10001u;
  return {own[0].is_of_ones ? ones : words.x, own[1].is_of_ones ? ones : words.y,
          own[0].is_of_ones ? ones : words.z, own[1].is_of_ones ? ones : words.w};
}

// A tile's products, over the rows and steps of 16 columns that grad_output has.
template <class T, int kChunks>
__device__ __forceinline__ void multiply_pixels(const PlainWgradArguments& args,
                                                const RowConsumer& rows, uint32_t ring,
                                                uint32_t grad_output, const PlainRowPlace (&own)[2],
                                                int32_t tile_rows, int32_t steps,
                                                float (&sums)[kChunks][kChunkSums]) {
  const Sweep& sweep = args.wgrad.sweep;
  const uint32_t pixel_bytes = args.rows.pixel_step * 2;
  const uint32_t own_pixels = threadIdx.x % 4 * 2 * pixel_bytes;
  for (int32_t tile_row = 0; tile_row < tile_rows; ++tile_row) {
    uint32_t at[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      at[half] =
          ring + own[half].element_bytes + own_pixels +
          rows.slot(tile_row * sweep.stride_h + own[half].r * sweep.dilation_h) * sweep.row_bytes;
    }
    uint32_t pixels = grad_output + tile_row * sweep.columns * (kPlainChunk * 2);
    uint4 lying = load_pixels(at, pixel_bytes);
    int32_t left = steps;
    while (true) {
      const uint4 words = with_ones<T>(lying, own);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        wgmma_turned<T>(sums[i], words, pixel_operand(pixels + i * kChunkBytes));
      }
      wgmma_commit();
      if (--left == 0) break;
      pixels += kDeep * kPlainChunk * 2;
      at[0] += kDeep * pixel_bytes;
      at[1] += kDeep * pixel_bytes;
      // The next words come while the instruction runs, and are an operand after it has ended.
      lying = load_pixels(at, pixel_bytes);
      wgmma_wait<0>();
      wgmma_settle(lying);
    }
    wgmma_wait<0>();
  }
  wgmma_settle(sums);
}

template <int kChunks>
inline constexpr int kMostPlainWgradThreads = (kChunks == 1 ? kMostPlainGroups : 1) * 128 + 32;

template <class T, int kChunks>
__global__ void __launch_bounds__(kMostPlainWgradThreads<kChunks>, kChunks == 1 ? 2 : 3)
    plain_wgrad_kernel(const __grid_constant__ CUtensorMap rows_map,
                       const __grid_constant__ CUtensorMap grad_output_map,
                       const __grid_constant__ PlainWgradArguments args) {
  extern __shared__ unsigned char shared_base[];
  __shared__ PlainWgradBarriers barriers;
  const WgradArguments& wgrad = args.wgrad;
  const Sweep& sweep = wgrad.sweep;
  const uint32_t stages = (shared_address_of(shared_base) + 1023) / 1024 * 1024;
  const uint32_t ring = stages + wgrad.grad_output_stages * kChunks * kChunkBytes;
  const WgradWork work(wgrad);
  const int32_t warp = this_warp();
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&rows_map);
    prefetch_map(&grad_output_map);
    barriers.init(sweep.ring, wgrad.grad_output_stages, static_cast<uint32_t>(args.groups * 4));
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp >= args.groups * 4) {
    if (threadIdx.x % 32 == 0) {
      bring_tiles(args, rows_map, grad_output_map, ring, stages, barriers,
                  work.channel_tile * kChunks * kPlainChunk, work.first_tile, work.end_tile);
    }
    return;
  }
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const PlainRowPlace own[] = {{args, plain_row_of(thread, 0)}, {args, plain_row_of(thread, 1)}};
  RowConsumer rows(sweep, barriers.rows);
  RingPosition at;
  float sums[kChunks][kChunkSums] = {};
  for (int32_t tile = work.first_tile; tile < work.end_tile; ++tile) {
    const TilePlace place(sweep, tile);
    const int32_t done = rows_done_after(sweep, place, tile + 1 == work.end_tile);
    rows.wait(max(sweep.rows_of_tile(), done));
    mbarrier_wait(&barriers.full[at.stage], at.parity);
    const int32_t tile_rows = min(sweep.tile_rows, sweep.p - place.band * sweep.tile_rows);
    const int32_t columns = min(sweep.columns, sweep.q - place.strip * sweep.columns);
    multiply_pixels<T, kChunks>(args, rows, ring, stages + at.stage * kChunks * kChunkBytes, own,
                                tile_rows, (columns + kDeep - 1) / kDeep, sums);
    if (threadIdx.x % 32 == 0) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.empty[at.stage]);
    }
    at.advance(wgrad.grad_output_stages);
    rows.release(done);
  }
  // Sums that belong neither to the filter's gradient nor to the bias's are neither added nor kept.
  const int32_t own_channel = work.channel_tile * kChunks * kPlainChunk + thread % 4 * 2;
  float* to = wgrad.partial +
              (int64_t{work.run} * wgrad.channel_tiles + work.channel_tile) *
                  (kChunks * kChunkSums) * args.math_threads() +
              thread;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
    for (int i = 0; i < kChunkSums; ++i) {
      const int32_t k = own_channel + chunk * kPlainChunk + i / 4 * 8;
      if (own[i / 2 % 2].exists && k < wgrad.k) *to = sums[chunk][i];
      to += args.math_threads();
    }
  }
}

}  // namespace haloconv::sm90::first_layers
