// Alternating tiles whose filter stays in shared memory: staying.h. alternating_kernel.cuh is the
// same but for what is brought.
#pragma once

#include "conv2d/families/channels_last/copied_results.cuh"
#include "conv2d/families/channels_last/kernel.cuh"
#include "conv2d/families/channels_last/staying.h"
#include "conv2d/families/channels_last/turns.cuh"
#include "cuda/registers.cuh"

namespace haloconv::sm90::channels_last {

// The filter's units, then a ring of the source's.
template <Tile kTile>
struct StayingMemory {
  static_assert(units_of(kTile) == 1);
  static constexpr uint32_t kSourceBytes = SharedMemory<kTile>::kSourceUnit;
  static constexpr uint32_t kFilterBytes = SharedMemory<kTile>::kFilterUnit;

  uint64_t *full, *empty;  // of the ring
  uint32_t filter, sources;

  __device__ __forceinline__ StayingMemory(const SharedMemory<kTile>& shared, int32_t units)
      : full(shared.full),
        empty(shared.empty),
        filter(shared.stages),
        sources(shared.stages + units * kFilterBytes) {}

  __device__ __forceinline__ uint32_t source(int32_t stage) const {
    return sources + stage * kSourceBytes;
  }
};

// prefetch.h, of the first tile.
template <Tile kTile, bool kDgrad>
__device__ __forceinline__ void prefetch_staying(const Arguments& args, const TensorMaps& maps,
                                                 const StayingTiles& tiles, int32_t units) {
  const int32_t ahead = min(args.prefetched_stages, units);
  if (ahead == 0) return;
  const TilePhase& phase = args.phase[0];
  const TilePosition<kTile> at(args, tiles.number());
  const SourceColumn source(args, phase, at.first_pixel);
  for (int32_t i = 0; i < ahead; ++i) {
    source.prefetch(&maps.source[0], i * kTile.depth, phase.offset_w, phase.offset_h);
  }
  FilterUnit<kTile, kDgrad>::prefetch(&maps.filter,
                                      static_cast<int32_t>(blockIdx.x) % units * kTile.depth,
                                      phase.tap_w, phase.tap_h, at.first_channel);
}

// produce() of a filter that stays.
template <Tile kTile, bool kDgrad>
__device__ __forceinline__ void produce_staying(const Arguments& args, const TensorMaps& maps,
                                                const StayingMemory<kTile>& shared,
                                                StayingTiles tiles, int32_t units) {
  using Memory = StayingMemory<kTile>;
  const TilePhase& phase = args.phase[0];
  RingPosition ring, read;  // `read` is a tile behind
  KernelBefore before;
  bool brings_filter = true, is_first = true;
  while (tiles.left > 0) {
    const TilePosition<kTile> at(args, tiles.number());
    const SourceColumn source(args, phase, at.first_pixel);
    uint32_t filter = shared.filter;
    for (int32_t channel = 0; channel < args.channels; channel += kTile.depth) {
      mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);
      uint64_t* const full = &shared.full[ring.stage];
      before.wait();
      expect_bytes(full, Memory::kSourceBytes + (brings_filter ? Memory::kFilterBytes : 0));
      source.copy(shared.source(ring.stage), &maps.source[0], shared_address_of(full), channel,
                  phase.offset_w, phase.offset_h);
      if (brings_filter) {
        // The unit that was there has been read. Where the ring is no longer than a tile, the wait
        // for a stage of it says so.
        if (!is_first && args.stages > units) mbarrier_wait(&shared.empty[read.stage], read.parity);
        FilterUnit<kTile, kDgrad>::copy(&maps.filter, filter, shared_address_of(full), channel,
                                        phase.tap_w, phase.tap_h, at.first_channel);
        filter += Memory::kFilterBytes;
      }
      ring.advance(args.stages);
      if (!is_first) read.advance(args.stages);
    }
    is_first = false;
    brings_filter = tiles.advance();
  }
  before.wait();
}

// multiply() of a filter that stays.
template <class T, Tile kTile, bool kDgrad, class Issued>
__device__ __forceinline__ void multiply_staying(const StayingMemory<kTile>& shared,
                                                 RingPosition& ring, int32_t stages, int32_t lane,
                                                 int32_t stages_of_ring, Sums<kTile>& sums,
                                                 Issued issued) {
  constexpr int kRowBytes = kTile.row_bytes();
  constexpr int kDeep = kOperandBytes / kTile.element_bytes;  // of an instruction
  uint32_t filter = shared.filter;
  int32_t last = -1;
  do {
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
    wgmma_fence();
    const uint32_t source = shared.source(ring.stage);
#pragma unroll
    for (int k = 0; k < kTile.depth; k += kDeep) {
      const uint64_t b =
          filter_form(kTile, kDgrad) | operand_address(filter + filter_step(kTile, kDgrad, k));
#pragma unroll
      for (int row = 0; row < kRowBlocks<kTile>; ++row) {
        const uint64_t a = swizzled_form(kRowBytes, kRowBytes * 8) |
                           operand_address(source + row * 64 * kRowBytes + k * kTile.element_bytes);
        wgmma_shared<T, kTile.channels, false, kDgrad>(sums[row], a, b);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0) release_stage(&shared.empty[last], lane);
    last = ring.stage;
    ring.advance(stages_of_ring);
    filter += StayingMemory<kTile>::kFilterBytes;
  } while (--stages > 0);
  issued();
  wgmma_wait<0>();
  release_stage(&shared.empty[last], lane);
  wgmma_settle(sums);
}

// Of a Tile{kPixels, kChannels, kDepth, sizeof(T), true}, which nvcc takes apart only.
template <class T, int kPixels, int kChannels, int kDepth, bool kDgrad>
__global__ void __launch_bounds__(threads_of(Tile{kPixels, kChannels, kDepth, sizeof(T), true}), 1)
    staying_kernel(const __grid_constant__ Arguments args, const __grid_constant__ TensorMaps maps,
                   const bool copies_results) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T), true};
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  static_assert(kMostAlternatingSharedBytes + sizeof(barriers) <= kMaxShared);
  const int32_t stages = (args.channels + kTile.depth - 1) / kTile.depth;
  const StayingMemory<kTile> shared(SharedMemory<kTile>(shared_base, barriers), stages);
  StayingTiles tiles(args.tiles, args.channel_tiles, static_cast<int32_t>(blockIdx.x),
                     static_cast<int32_t>(gridDim.x));
  const int32_t group = this_warp() / 4, warp = this_warp() % 4;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  ask_for_arguments(args, group * 4 + warp);
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.filter);
    prefetch_map(&maps.source[0]);
    if (copies_results) prefetch_map(&maps.result);
  }
  const bool brings = group == kMathGroups && warp == 0;
  begin_with_barriers<threads_of(kTile), 4>(shared, brings, lane);
  if (brings && lane == 0) {
    prefetch_staying<kTile, kDgrad>(args, maps, tiles, stages);
  }

  if (group == kMathGroups) {
    release_registers<24>();
    if (brings && lane == 0) {
      produce_staying<kTile, kDgrad>(args, maps, shared, tiles, stages);
    }
    return;
  }
  take_registers<240>();
  RingPosition ring;
  CopiedResults<T, kTile> copied(shared.source(args.stages), group);
  bool is_first = true;
  for (int32_t owner = 0; tiles.left > 0; tiles.advance(), owner ^= 1, is_first = false) {
    if (owner != group) {
      skip(ring, stages, args.stages);
      continue;
    }
    if (!is_first) wait_for_turn(group);
    Sums<kTile> sums = {};
    multiply_staying<T, kTile, kDgrad>(shared, ring, stages, lane, args.stages, sums, [&] {
      if (tiles.left > 1) give_turn_to(group ^ 1);
    });
    const TilePosition<kTile> at(args, tiles.number());
    if (copies_results) {
      copied.write(&maps.result, at.first_pixel, at.first_channel, args.results.channels, warp,
                   lane, sums);
      continue;
    }
    // Places of all blocks of 64 pixels at once would be more registers than there are.
#pragma unroll
    for (int row = 0; row < kRowBlocks<kTile>; ++row) {
      auto& of_row = reinterpret_cast<float (&)[1][kTile.channels / 2]>(sums[row]);
      write_results<T>(args.results, places_of<1>(args, at, row, warp, lane), at.first_channel,
                       lane, of_row);
    }
  }
  if (copies_results) copied.finish();
}

}  // namespace haloconv::sm90::channels_last
