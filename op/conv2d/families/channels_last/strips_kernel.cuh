// The kernel of strips.h. A thread brings the filter, then windows of source rows into a ring; two
// warpgroups multiply and write.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/producer.cuh"
#include "conv2d/families/channels_last/strips.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/registers.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last {

// The thread that brings has a warpgroup for itself: registers are released by whole warpgroups,
// and the other two need them for sums and results.
inline constexpr int kStripThreads = (kMathGroups + 1) * 128;

struct StripBarriers {
  uint64_t full[kMaxStripStages], empty[kMaxStripStages], filter;
};

// Shared memory: the filter, then the windows' stages.
struct StripMemory {
  StripBarriers& barriers;
  uint32_t filter, windows;

  __device__ __forceinline__ StripMemory(unsigned char* base, StripBarriers& all,
                                         const StripArguments& args)
      : barriers(all),
        filter((shared_address_of(base) + kAlignment - 1) / kAlignment * kAlignment),
        windows(filter + args.filter_bytes) {}
};

// The filter in the order in which it is multiplied: chunks of source channels, then columns by the
// offset of what they meet, then rows, the eldest sums' first.
template <Tile kTile, bool kDgrad>
__device__ __forceinline__ void bring_filter(const StripArguments& args, const WindowMaps& maps,
                                             const StripMemory& shared) {
  const int32_t channel = args.channel_tile_of(static_cast<int32_t>(blockIdx.x)) * kTile.channels;
  expect_bytes(&shared.barriers.filter, args.filter_bytes);
  uint32_t to = shared.filter;
  for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
    for (int32_t column = 0; column < args.taps_w; ++column) {
      for (int32_t row = 0; row < args.taps_h; ++row) {
        const int32_t tap_w = args.is_mirrored ? args.taps_w - 1 - column : column;
        const int32_t tap_h = args.is_mirrored ? row : args.taps_h - 1 - row;
        FilterUnit<kTile, kDgrad>::copy(&maps.filter, to,
                                        shared_address_of(&shared.barriers.filter),
                                        chunk * kTile.depth, tap_w, tap_h, channel);
        to += kTile.channels * kTile.row_bytes();
      }
    }
  }
}

template <Tile kTile>
__device__ __forceinline__ void bring_rows(const StripArguments& args, const WindowMaps& maps,
                                           const StripMemory& shared) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t end = args.end_of(block);
  RingPosition ring;
  for (int32_t at = args.first_row_of(block); at < end;) {
    const StripPart part = args.part(at, end);
    int32_t row = args.first_h + part.row;
    for (int32_t left = part.rows + args.taps_h - 1; left > 0; --left) {
      for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
        uint64_t* const full = &shared.barriers.full[ring.stage];
        mbarrier_wait(&shared.barriers.empty[ring.stage], ring.parity ^ 1);
        expect_bytes(full, args.window_bytes);
        copy_box(shared.windows + ring.stage * args.window_pitch, &maps.source,
                 shared_address_of(full), chunk * kTile.depth, args.first_w + part.column, row,
                 part.image);
        ring.advance(args.stages);
      }
      row += args.row_step.divisor;
    }
    at += part.rows;
  }
}

// Products of a source row's chunk with a column of the filter, left in flight.
template <class T, Tile kTile, int kRows, bool kDgrad>
__device__ __forceinline__ void multiply_tap(uint64_t source, uint64_t filter,
                                             float (&sums)[kRows * kTile.channels / 2]) {
  constexpr int kDeep = kOperandBytes / kTile.element_bytes;
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < kTile.depth; k += kDeep) {
    wgmma_shared<T, kRows * kTile.channels, false, kDgrad>(
        sums, source + k * kTile.element_bytes / 16, filter + filter_step(kTile, kDgrad, k) / 16);
  }
  wgmma_commit();
}

// Adds a source row's products to the sums of kRows destination rows, the eldest first. Calls
// meanwhile() while they are on their way.
template <class T, Tile kTile, int kRows, bool kDgrad, class Meanwhile>
__device__ __forceinline__ void multiply_row(const StripArguments& args, const StripMemory& shared,
                                             RingPosition& ring, int32_t group, int32_t lane,
                                             float (&sums)[kRows * kTile.channels / 2],
                                             Meanwhile meanwhile) {
  constexpr int kRowBytes = kTile.row_bytes();
  const uint64_t tap_filter = args.taps_h * kTile.channels * kRowBytes / 16;
  uint64_t filter = filter_form(kTile, kDgrad) | operand_address(shared.filter);
  int32_t last = -1, chunks = args.chunks;
#pragma unroll 1
  do {
    mbarrier_wait(&shared.barriers.full[ring.stage], ring.parity);
    uint64_t source =
        swizzled_form(kRowBytes, 8 * kRowBytes) |
        operand_address(shared.windows + ring.stage * args.window_pitch + group * args.group_bytes);
    multiply_tap<T, kTile, kRows, kDgrad>(source, filter, sums);
    filter += tap_filter;
    // What the chunk before read is free now.
    wgmma_wait<1>();
    if (last >= 0) release_stage(&shared.barriers.empty[last], lane);
#pragma unroll 1
    for (int32_t taps = args.taps_w; taps > 1; --taps) {
      source += args.tap_bytes / 16;
      multiply_tap<T, kTile, kRows, kDgrad>(source, filter, sums);
      filter += tap_filter;
    }
    if (last < 0) meanwhile();
    last = ring.stage;
    ring.advance(args.stages);
  } while (--chunks > 0);
  wgmma_wait<0>();
  release_stage(&shared.barriers.empty[last], lane);
  wgmma_settle(sums);
}

// A thread's pixels of the first row of a part of a strip.
__device__ __forceinline__ Places<1> places_of(const StripArguments& args, const StripPart& part,
                                               int32_t warp, int32_t lane) {
  Places<1> places;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const StripPixel pixel = args.pixel(part, warp / 4, pixel_in_block(warp % 4, lane, half));
    places.inside[half] = pixel.exists;
    places.at[half] = pixel.image * args.destination_n + part.row * args.destination_h +
                      pixel.column * args.destination_w;
  }
  return places;
}

// Takes the eldest sums; the others move up. Sums beyond the filter's rows are of nothing.
template <int kRows, int kHalf, int kWide>
__device__ __forceinline__ void take_eldest(int32_t taps_h, float (&sums)[kRows * kHalf],
                                            float (&eldest)[kWide]) {
#pragma unroll
  for (int i = 0; i < kWide; ++i) eldest[i] = i < kHalf ? sums[i] : 0.0f;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const bool goes_on = row + 1 < kRows && row + 1 < taps_h;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int from = row + 1 < kRows ? (row + 1) * kHalf + i : i;
      sums[row * kHalf + i] = goes_on ? sums[from] : 0.0f;
    }
  }
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <class T, int kRows, int kPixels, int kChannels, int kDepth, bool kDgrad, bool kFused>
__global__ void __launch_bounds__(kStripThreads, 1)
    strips_kernel(const __grid_constant__ StripArguments args,
                  const __grid_constant__ WindowMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T)};
  // Results are written 32 channels at a time.
  constexpr int kHalf = kChannels / 2, kWide = kChannels < 32 ? 32 : kChannels;
  extern __shared__ unsigned char shared_base[];
  __shared__ StripBarriers barriers;
  __shared__ ChannelTable<kFused ? kWide : 0> table;
  static_assert(kMostSharedBytes + sizeof(barriers) + sizeof(table) <= kMaxShared);
  const StripMemory shared(shared_base, barriers, args);
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.filter);
    prefetch_map(&maps.source);
    cuda::ptx::mbarrier_init(&barriers.filter, 1);
    for (int i = 0; i < kMaxStripStages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();

  if (warp / 4 == kMathGroups) {
    release_registers<24>();
    if (warp % 4 == 0 && lane == 0) {
      wait_for_kernel_before();
      bring_filter<kTile, kDgrad>(args, maps, shared);
      bring_rows<kTile>(args, maps, shared);
    }
    return;
  }
  take_registers<240>();
  if constexpr (kFused) wait_for_kernel_before();
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t channel = args.channel_tile_of(block) * kChannels;
  // Of a narrow tile the next one's channels are not written.
  Results of_tile;
  if constexpr (kChannels < kWide) {
    of_tile = args.results;
    of_tile.channels = min(of_tile.channels, channel + kChannels);
  }
  const Results& results = kChannels < kWide ? of_tile : args.results;
  FusedTiles<T, kFused ? kWide : 0, kMathGroups * 128> fused(results, table);
  fused.begin(channel);
  const int32_t end = args.end_of(block);
  RingPosition ring;
  mbarrier_wait(&barriers.filter, 0);
  for (int32_t at = args.first_row_of(block); at < end;) {
    const StripPart part = args.part(at, end);
    const Places<1> first = places_of(args, part, warp, lane);
    float sums[kRows * kHalf] = {};
    float eldest[1][kWide / 2];  // a row's results, written while the next one's products are made
    const auto write_row = [&](int32_t row) {
      const int32_t to_row = row * args.row_step.divisor;
      if (row < 0 || part.row + to_row >= args.height) return;
      Places<1> places = first;
      for (int64_t& place : places.at) place += to_row * args.destination_h;
      write_tile(fused, results, places, channel, lane, eldest);
    };
#pragma unroll 1
    for (int32_t row = 1 - args.taps_h; row < part.rows; ++row) {
      multiply_row<T, kTile, kRows, kDgrad>(args, shared, ring, warp / 4, lane, sums,
                                            [&] { write_row(row - 1); });
      take_eldest<kRows, kHalf>(args.taps_h, sums, eldest[0]);
    }
    write_row(part.rows - 1);
    at += part.rows;
  }
}

}  // namespace haloconv::sm90::channels_last
