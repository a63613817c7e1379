// wgrad in TF32 by the warp's matrix instruction: warp_products.h. One thread asks the copy engine
// for tiles, and some warps round what it brings of the input.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/round_for_product.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/first_layers/block_work.cuh"
#include "conv2d/families/first_layers/warp_products.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/mma.cuh"
#include "cuda/named_barrier.cuh"
#include "cuda/store_unit.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"

namespace haloconv::sm90::first_layers {

inline constexpr int kProductThreads = kProductWarps * 32;
// With them the block has three warps for each of a multiprocessor's schedulers, and 168 registers
// for a thread.
inline constexpr int kRoundingThreads = 3 * 32;
inline constexpr int kWarpProductsThreads = kProductThreads + kRoundingThreads + 32;

struct WarpProductsBarriers {
  uint64_t full[kMostWarpStages], rounded[kMostWarpStages], empty[kMostWarpStages];
};

__device__ __forceinline__ void bring_warp_tiles(const WarpProductsArguments& args,
                                                 const CUtensorMap& rows_map,
                                                 const CUtensorMap& grad_output_map,
                                                 uint32_t stages, WarpProductsBarriers& barriers,
                                                 int32_t first_channel, int32_t first_tile,
                                                 int32_t end_tile) {
  const Sweep& sweep = args.wgrad.sweep;
  RingPosition at;
  for (int32_t tile = first_tile; tile < end_tile; ++tile) {
    const TilePlace place(sweep, tile);
    uint64_t* const full = &barriers.full[at.stage];
    mbarrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
    expect_bytes(full,
                 static_cast<uint32_t>(args.chunks * args.chunk_bytes() + args.input_bytes()));
    uint32_t to = stages + at.stage * args.stage_bytes;
    for (int32_t i = 0; i < args.chunks; ++i) {
      copy_box(to, &grad_output_map, shared_address_of(full), first_channel + i * kWarpChannels,
               place.strip * sweep.columns, place.band * sweep.tile_rows, place.image);
      to += args.chunk_bytes();
    }
    copy_box(to, &rows_map, shared_address_of(full), args.first_element(place.strip) / 2,
             place.band * sweep.rows_to_next() - sweep.pad_top, place.image);
    at.advance(args.stages);
  }
}

// Rounds the input's elements where they lie: many columns read each, and it would take the warps
// that multiply longer than to do so once. Tiles are rounded in their order, so that a group of
// warps that has multiplied one may rely on it that all tiles before have been there.
__device__ __forceinline__ void round_elements(const WarpProductsArguments& args, uint32_t stages,
                                               WarpProductsBarriers& barriers, int32_t tiles) {
  const uint32_t thread = threadIdx.x - kProductThreads - 32;
  const auto bytes = static_cast<uint32_t>(args.input_bytes());
  RingPosition at;
#pragma unroll 1
  for (; tiles > 0; --tiles) {
    mbarrier_wait(&barriers.full[at.stage], at.parity);
    const uint32_t first = stages + at.stage * args.stage_bytes + args.chunks * args.chunk_bytes();
#pragma unroll 4
    for (uint32_t i = thread * 16; i < bytes; i += kRoundingThreads * 16) {
      uint32_t words[4];
      load_shared_bits(first + i, words);
#pragma unroll
      for (uint32_t& word : words) word = round_for_product(word);
      store_unit(first + i, words);
    }
    // The copy engine writes there next, by another path.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                               cuda::ptx::space_shared, &barriers.rounded[at.stage]);
    at.advance(args.stages);
  }
}

// A thread's operands of eight pixels: of each chunk's two instructions below each other four
// words, and of the columns of each instruction two.
template <int kChunks>
struct WarpOperands {
  uint32_t channels[kChunks * 2][4], elements[kWarpInstructions][2];
};

// Where a thread reads them: at the first and at the second of its two pixels.
struct WarpPlace {
  uint32_t channels[2][2], elements[kWarpInstructions];
  uint32_t chunk_bytes, pixel_bytes;

  __device__ __forceinline__ void advance() {
#pragma unroll
    for (auto& of_pixel : channels) {
#pragma unroll
      for (uint32_t& at : of_pixel) at += kWarpDeep * 128;
    }
#pragma unroll
    for (uint32_t& at : elements) at += kWarpDeep * pixel_bytes;
  }
};

template <int kChunks>
__device__ __forceinline__ void load_operands(const WarpPlace& place, WarpOperands<kChunks>& to) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < kChunks * 2; ++i) {
      uint32_t words[2];  // neighbouring channels, of rows t / 4 and 8 more
      load_shared_bits(place.channels[half][i % 2] + i / 2 * place.chunk_bytes, words);
      to.channels[i][half * 2] = words[0];
      to.channels[i][half * 2 + 1] = words[1];
    }
#pragma unroll
    for (auto& element : to.elements) {
      const auto j = &element - to.elements;
      uint32_t word[1];
      load_shared_bits(place.elements[j] + half * place.pixel_bytes, word);
      element[half] = word[0];
    }
  }
}

template <int kChunks>
struct WarpSums {
  float of[kChunks * 2][kWarpInstructions][4] = {};
  float grad_output[kChunks * 2][2] = {};  // of the thread's channels and pixels
};

template <int kChunks>
__device__ __forceinline__ void multiply_operands(WarpOperands<kChunks>& operands,
                                                  WarpSums<kChunks>& sums) {
#pragma unroll
  for (int i = 0; i < kChunks * 2; ++i) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      sums.grad_output[i][word % 2] += __uint_as_float(operands.channels[i][word]);
      operands.channels[i][word] = round_for_product(operands.channels[i][word]);
    }
  }
#pragma unroll
  for (int j = 0; j < kWarpInstructions; ++j) {
#pragma unroll
    for (int i = 0; i < kChunks * 2; ++i) {
      multiply_add<float>(sums.of[i][j], operands.channels[i], operands.elements[j]);
    }
  }
}

// The last eight pixels of a row, of which grad_output may not have all: zeros stand for those
// beyond, and the elements there may be infinite.
template <int kChunks>
__device__ __forceinline__ void multiply_last(WarpOperands<kChunks>& operands, int32_t pixels,
                                              WarpSums<kChunks>& sums) {
  if (pixels < kWarpDeep) {
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
#pragma unroll
    for (auto& words : operands.elements) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (pixel_of_lane(lane, half) >= pixels) words[half] = 0;
      }
    }
  }
  multiply_operands(operands, sums);
}

// One row of a tile, of so many pixels. The next operands come while some are multiplied.
template <int kChunks>
__device__ __forceinline__ void multiply_row(WarpPlace place, int32_t pixels,
                                             WarpSums<kChunks>& sums) {
  WarpOperands<kChunks> even, odd;
  load_operands(place, even);
  while (true) {
    if (pixels <= kWarpDeep) return multiply_last(even, pixels, sums);
    place.advance();
    load_operands(place, odd);
    multiply_operands(even, sums);
    pixels -= kWarpDeep;
    if (pixels <= kWarpDeep) return multiply_last(odd, pixels, sums);
    place.advance();
    load_operands(place, even);
    multiply_operands(odd, sums);
    pixels -= kWarpDeep;
  }
}

// Puts the sums of grad_output, of all pixels of the warp's group, where the bias's column is.
template <int kChunks>
__device__ __forceinline__ void place_bias(const WarpProductsArguments& args,
                                           WarpSums<kChunks>& sums) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t first_column = this_warp() % args.column_warps * kWarpColumns + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kChunks * 2; ++i) {
#pragma unroll
    for (int channel = 0; channel < 2; ++channel) {
      float sum = sums.grad_output[i][channel];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
#pragma unroll
      for (int j = 0; j < kWarpInstructions * 2; ++j) {
        if (first_column + j / 2 * 8 + j % 2 == args.elements()) {
          sums.of[i][j / 2][channel * 2 + j % 2] = sum;
        }
      }
    }
  }
}

// Adds the groups' sums in their order, by way of shared memory that all have ceased to read.
template <int kChunks>
__device__ __forceinline__ void store_sums(const WarpProductsArguments& args, float* shared,
                                           const WarpSums<kChunks>& sums, float* to) {
  constexpr int kSums = kChunks * 2 * kWarpInstructions * 4;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  named_barrier_sync<1, kProductThreads>();
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    shared[i * kProductThreads + thread] =
        sums.of[i / 4 / kWarpInstructions][i / 4 % kWarpInstructions][i % 4];
  }
  named_barrier_sync<1, kProductThreads>();
  const int32_t threads = args.sum_threads();
  const int32_t in_sum = thread % threads, first = thread / threads, step = args.groups();
#pragma unroll 4
  for (int32_t i = first; i < kSums; i += step) {
    float sum = 0;
    for (int32_t group = 0; group < args.groups(); ++group) {
      sum += shared[i * kProductThreads + group * threads + in_sum];
    }
    to[i * threads + in_sum] = sum;
  }
}

template <int kChunks>
__global__ void __launch_bounds__(kWarpProductsThreads, 1)
    warp_products_kernel(const __grid_constant__ CUtensorMap rows_map,
                         const __grid_constant__ CUtensorMap grad_output_map,
                         const __grid_constant__ WarpProductsArguments args) {
  extern __shared__ unsigned char shared_base[];
  __shared__ WarpProductsBarriers barriers;
  const WgradArguments& wgrad = args.wgrad;
  const Sweep& sweep = wgrad.sweep;
  const uint32_t base = shared_address_of(shared_base);
  const uint32_t stages = (base + 1023) / 1024 * 1024;
  auto* const aligned = reinterpret_cast<float*>(shared_base + (stages - base));
  const WgradWork work(wgrad);
  const int32_t warp = this_warp();
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&rows_map);
    prefetch_map(&grad_output_map);
    for (int32_t i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.rounded[i], kRoundingThreads);
      cuda::ptx::mbarrier_init(&barriers.empty[i], static_cast<uint32_t>(args.column_warps));
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp == kProductWarps) {
    if (threadIdx.x % 32 == 0) {
      bring_warp_tiles(args, rows_map, grad_output_map, stages, barriers,
                       work.channel_tile * kChunks * kWarpChannels, work.first_tile, work.end_tile);
    }
    return;
  }
  if (warp > kProductWarps) {
    round_elements(args, stages, barriers, work.end_tile - work.first_tile);
    return;
  }
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t group = warp / args.column_warps, groups = args.groups();
  const int32_t own_pixel_bytes = pixel_of_lane(lane, 0) * args.pixel_step * 4;
  uint32_t own[kWarpInstructions];
#pragma unroll
  for (int j = 0; j < kWarpInstructions; ++j) {
    const WarpColumn column(args, warp % args.column_warps * kWarpColumns + j * 8 + lane / 4);
    own[j] = own_pixel_bytes + static_cast<uint32_t>(column.bytes);
  }
  WarpSums<kChunks> sums;
  RingPosition at;
  for (int32_t i = 0; i < group; ++i) at.advance(args.stages);
#pragma unroll 1
  for (int32_t tile = work.first_tile + group; tile < work.end_tile; tile += groups) {
    const TilePlace place(sweep, tile);
    const int32_t tile_rows = min(sweep.tile_rows, sweep.p - place.band * sweep.tile_rows);
    const int32_t columns = min(sweep.columns, sweep.q - place.strip * sweep.columns);
    mbarrier_wait(&barriers.rounded[at.stage], at.parity);
    const uint32_t grad_output = stages + at.stage * args.stage_bytes;
    const uint32_t input = grad_output + kChunks * args.chunk_bytes();
#pragma unroll 1
    for (int32_t row = 0; row < tile_rows; ++row) {
      const uint32_t pixels = grad_output + row * sweep.columns * 128;
      const uint32_t elements = input + row * sweep.stride_h * args.pitch * 4;
      WarpPlace own_place{
          .channels = {{pixels + channels_at(lane, 0, 0), pixels + channels_at(lane, 0, 1)},
                       {pixels + channels_at(lane, 1, 0), pixels + channels_at(lane, 1, 1)}},
          .chunk_bytes = static_cast<uint32_t>(args.chunk_bytes()),
          .pixel_bytes = static_cast<uint32_t>(args.pixel_step * 4)};
#pragma unroll
      for (int j = 0; j < kWarpInstructions; ++j) {
        own_place.elements[j] = own[j] + elements;
      }
      multiply_row(own_place, columns, sums);
    }
    if (lane == 0) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.empty[at.stage]);
    }
    for (int32_t i = 0; i < groups; ++i) at.advance(args.stages);
  }
  if (wgrad.with_bias) place_bias(args, sums);
  store_sums(args, aligned, sums,
             wgrad.partial + (int64_t{work.run} * wgrad.channel_tiles + work.channel_tile) *
                                 args.sums_of_thread() * args.sum_threads());
}

}  // namespace haloconv::sm90::first_layers
