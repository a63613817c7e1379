// fprop from rows as they lie: plain_rows.h. The filter stays in shared memory. Rows come through a
// ring; one thread asks the copy engine for them.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/first_layers/block_work.cuh"
#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/plain_rows.h"
#include "conv2d/families/first_layers/row_ring.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::sm90::first_layers {

inline constexpr int kPlainMathThreads = kMathGroups * 128;
inline constexpr int kPlainThreads = kPlainMathThreads + 32;

// The filter's image of a warpgroup, or the one of both.
template <class T, int kN>
__device__ __forceinline__ void store_run_filter(const PlainRowsArguments& args, int32_t group,
                                                 int32_t first_channel, int32_t thread,
                                                 int32_t threads, unsigned char* image) {
  const FpropArguments& fprop = args.fprop;
  const int32_t units = args.rows.image_units(fprop.sweep.r, kN);
  const int32_t halves = args.rows.steps * 2, channels = args.rows.channels;
#pragma unroll 1
  for (int32_t i = thread; i < units; i += threads) {
    const int32_t channel = i % kN, above = i / kN;
    const int32_t r = above / halves, half = above - r * halves;
    const int32_t k = first_channel + channel;
    const auto* const from =
        static_cast<const T*>(fprop.filter) + k * fprop.filter_k + r * fprop.filter_r;
    T values[kPlainUnitElements];
    const int32_t first = args.rows.tap_of(group, half * kPlainUnitElements);
    int32_t s = max(first, 0) / channels, c = max(first, 0) - s * channels;
#pragma unroll
    for (int j = 0; j < kPlainUnitElements; ++j) {
      const int32_t tap = first + j;
      const bool exists = tap >= 0 && tap < args.rows.taps && k < fprop.results.channels;
      values[j] = exists ? __ldg(from + s * fprop.filter_s + c * fprop.filter_c) : T(0.0f);
      if (tap >= 0 && ++c == channels) c = 0, ++s;
    }
    *reinterpret_cast<uint4*>(image + i * kUnitBytes) = reinterpret_cast<const uint4&>(values);
  }
}

// Rows of a block's run, one copy after the other.
__device__ __forceinline__ void bring_rows(const PlainRowsArguments& args, const CUtensorMap& map,
                                           uint32_t ring, RowBarriers& barriers, int32_t first_tile,
                                           int32_t end_tile) {
  const Sweep& sweep = args.fprop.sweep;
  const PlainRows& plain = args.rows;
  RingPosition at;
  for (int32_t tile = first_tile; tile < end_tile;) {
    const TilePlace place(sweep, tile);
    const int32_t tiles = min(place.tiles_below(sweep), end_tile - tile);
    const int32_t rows = sweep.rows_of_segment(tiles);
    const int32_t first_row = place.band * sweep.tile_rows * sweep.stride_h - sweep.pad_top;
    const int32_t first = place.strip * sweep.columns * plain.pixel_step -
                          sweep.pad_left * plain.channels - plain.shift;
    for (int32_t row = 0; row < rows; ++row) {
      uint64_t* const full = &barriers.full[at.stage];
      mbarrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
      expect_bytes(full, static_cast<uint32_t>(plain.row_bytes()));
      for (int32_t i = 0; i < plain.boxes; ++i) {
        copy_box(ring + at.stage * sweep.row_bytes + i * plain.box * 8, &map,
                 shared_address_of(full), first / kCopiedElements + i * plain.box, first_row + row,
                 place.image);
      }
      at.advance(sweep.ring);
    }
    tile += tiles;
  }
}

// A thread's part of an operand, as it is in memory: the words of its two rows.
__device__ __forceinline__ uint4 load_run(uint32_t from, uint32_t half_bytes) {
  uint4 words;
  load_shared_bits(from, words.x);
  load_shared_bits(from + half_bytes, words.y);
  load_shared_bits(from + kUnitBytes, words.z);
  load_shared_bits(from + half_bytes + kUnitBytes, words.w);
  return words;
}

// The same, with zeros for what is not in the run.
__device__ __forceinline__ uint4 masked(const uint4& words, const RunMask& mask, bool is_first,
                                        bool is_last) {
  const uint32_t low = (is_first ? mask.first : ~0u) & (is_last ? mask.last[0] : ~0u);
  const uint32_t high = is_last ? mask.last[1] : ~0u;
  return make_uint4(words.x & low, words.y & low, words.z & high, words.w & high);
}

// One instruction's products, of 32 or 64 channels each.
template <class T, int kN>
__device__ __forceinline__ void multiply_run(const uint4& words, uint32_t filter,
                                             float (&sums)[kN / 2]) {
  constexpr int kWide = kN % 64 == 0 ? 64 : 32;
  const OperandLayout layout = {kN, 128 / kUnitBytes};
#pragma unroll
  for (int first = 0; first < kN; first += kWide) {
    const uint32_t start = (filter + first * kUnitBytes) >> 4 & 0x3fff;
    wgmma<T, kWide>(reinterpret_cast<float (&)[kWide / 2]>(sums[first / 2]), words,
                    operand(start | layout.k_stride << 16, layout), true);
  }
}

// A warpgroup's 64 pixels of a tile. `run` is where a thread's words begin in a row; the tile's
// first row is `row` rows on in the ring.
template <class T, int kN>
__device__ __forceinline__ void multiply_runs(const PlainRowsArguments& args,
                                              const RowConsumer& rows, int32_t row, uint32_t run,
                                              const RunMask& mask, uint32_t filter,
                                              float (&sums)[kN / 2]) {
  const Sweep& sweep = args.fprop.sweep;
  const int32_t steps = args.rows.steps;
  const auto half_bytes = static_cast<uint32_t>(args.rows.half_bytes());
  int32_t step = 0, left = sweep.r * steps;
  uint32_t from = run + rows.slot(row) * sweep.row_bytes;
  uint4 lying = load_run(from, half_bytes);
  while (true) {
    const uint4 words = masked(lying, mask, step == 0, step + 1 == steps);
    wgmma_fence();
    multiply_run<T, kN>(words, filter, sums);
    wgmma_commit();
    filter += 2 * kN * kUnitBytes;
    if (--left == 0) break;
    from += kDeep * 2;
    if (++step == steps) {
      step = 0;
      row += sweep.dilation_h;
      from = run + rows.slot(row) * sweep.row_bytes;
    }
    // The next words come while the instruction runs, and are an operand after it has ended.
    lying = load_run(from, half_bytes);
    wgmma_wait<0>();
    wgmma_settle(lying);
  }
  wgmma_wait<0>();
  wgmma_settle(sums);
}

template <class T, int kN, bool kFused>
__global__ void __launch_bounds__(kPlainThreads, plain_blocks(kN, kFused))
    plain_rows_kernel(const __grid_constant__ CUtensorMap map,
                      const __grid_constant__ PlainRowsArguments args) {
  extern __shared__ unsigned char shared_base[];
  __shared__ RowBarriers barriers;
  __shared__ ChannelTable<kFused ? kN : 0> table;
  static_assert(kMostSharedBytes + sizeof(barriers) + sizeof(table) <= kMaxShared);
  const FpropArguments& fprop = args.fprop;
  const Sweep& sweep = fprop.sweep;
  const PlainRows& plain = args.rows;
  const uint32_t base = shared_address_of(shared_base);
  unsigned char* const filter = shared_base + ((base + 127) / 128 * 128 - base);
  const int32_t image_bytes = plain.image_units(sweep.r, kN) * kUnitBytes;
  const uint32_t ring = shared_address_of(filter) + plain.images() * image_bytes;
  const FpropWork<kN> work(fprop);
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&map);
    for (int32_t i = 0; i < sweep.ring; ++i) {
      cuda::ptx::mbarrier_init(&barriers.full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp >= kMathGroups * 4) {
    if (lane == 0) bring_rows(args, map, ring, barriers, work.first_tile, work.end_tile);
    return;
  }
  const int32_t group = warp / 4, own_image = plain.has_halves() ? group : 0;
  const int32_t own_threads = plain.has_halves() ? 128 : kPlainMathThreads;
  store_run_filter<T, kN>(args, own_image, work.first_channel,
                          static_cast<int32_t>(threadIdx.x) % own_threads, own_threads,
                          filter + own_image * image_bytes);
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  sync_threads<kPlainMathThreads>();

  const int32_t number = pixel_in_block(warp % 4, lane, 0);
  const int32_t tile_row = plain.tile_row(sweep, group, number);
  const int32_t column = plain.column(sweep, group, number);
  const int32_t other = plain.column(sweep, group, number + 8) - column;
  const uint32_t words = ring + plain.run_bytes(group, column) + lane % 4 * 4;
  const RunMask mask = plain.mask(group, lane % 4);
  RowConsumer rows(sweep, barriers);
  FusedTiles<T, kFused ? kN : 0, kPlainMathThreads> fused(fprop.results, table);
  fused.begin(work.first_channel);
  for (int32_t tile = work.first_tile; tile < work.end_tile; ++tile) {
    const TilePlace place(sweep, tile);
    const int32_t done = rows_done_after(sweep, place, tile + 1 == work.end_tile);
    rows.wait(max(sweep.rows_of_tile(), done));
    float sums[1][kN / 2] = {};
    multiply_runs<T, kN>(args, rows, tile_row * sweep.stride_h, words, mask,
                         shared_address_of(filter) + own_image * image_bytes, sums[0]);
    rows.release(done);
    const int32_t p = place.band * sweep.tile_rows + tile_row;
    Places<1> places;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t q = place.strip * sweep.columns + column + half * other;
      places.inside[half] = p < sweep.p && q < sweep.q;
      places.at[half] =
          place.image * fprop.destination_n + p * fprop.destination_h + q * fprop.destination_w;
    }
    write_tile(fused, fprop.results, places, work.first_channel, lane, sums);
  }
}

}  // namespace haloconv::sm90::first_layers
