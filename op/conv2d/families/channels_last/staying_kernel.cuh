// Alternating tiles whose filter stays in shared memory: staying.h. alternating_kernel.cuh is the
// same but for what is brought.
#pragma once

#include "conv2d/families/channels_last/copied_results.cuh"
#include "conv2d/families/channels_last/kernel.cuh"
#include "conv2d/families/channels_last/staying.h"
#include "conv2d/families/channels_last/turns.cuh"
#include "cuda/registers.cuh"

namespace haloconv::sm90::channels_last {

// The filter's units, then a ring of the source's: what multiply() takes in place of SharedMemory.
template <Tile kTile>
struct StayingMemory {
  static_assert(units_of(kTile) == 1);
  static constexpr uint32_t kSourceUnit = SharedMemory<kTile>::kSourceUnit;
  static constexpr uint32_t kStayingUnit = SharedMemory<kTile>::kFilterUnit;

  uint64_t *full, *empty;  // of the ring
  uint32_t staying_filter, sources;

  __device__ __forceinline__ StayingMemory(const SharedMemory<kTile>& shared, int32_t units)
      : full(shared.full),
        empty(shared.empty),
        staying_filter(shared.stages),
        sources(shared.stages + units * kStayingUnit) {}

  // Of the source alone.
  __device__ __forceinline__ uint32_t stage(int32_t index) const {
    return sources + index * kSourceUnit;
  }

  static __device__ __forceinline__ uint32_t filter_unit(uint32_t /*stage*/, uint32_t staying,
                                                         int /*index*/) {
    return staying;
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
    uint32_t filter = shared.staying_filter;
    for (int32_t channel = 0; channel < args.channels; channel += kTile.depth) {
      mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);
      uint64_t* const full = &shared.full[ring.stage];
      before.wait();
      expect_bytes(full, Memory::kSourceUnit + (brings_filter ? Memory::kStayingUnit : 0));
      source.copy(shared.stage(ring.stage), &maps.source[0], shared_address_of(full), channel,
                  phase.offset_w, phase.offset_h);
      if (brings_filter) {
        // The unit that was there has been read. Where the ring is no longer than a tile, the wait
        // for a stage of it says so.
        if (!is_first && args.stages > units) mbarrier_wait(&shared.empty[read.stage], read.parity);
        FilterUnit<kTile, kDgrad>::copy(&maps.filter, filter, shared_address_of(full), channel,
                                        phase.tap_w, phase.tap_h, at.first_channel);
        filter += Memory::kStayingUnit;
      }
      ring.advance(args.stages);
      if (!is_first) read.advance(args.stages);
    }
    is_first = false;
    brings_filter = tiles.advance();
  }
  before.wait();
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
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
  StoredStage stored;
  CopiedResults<T, kTile> copied(shared.stage(args.stages), group);
  bool is_first = true;
  for (int32_t owner = 0; tiles.left > 0; tiles.advance(), owner ^= 1, is_first = false) {
    if (owner != group) {
      skip(ring, stages, args.stages);
      continue;
    }
    if (!is_first) wait_for_turn(group);
    Sums<kTile> sums = {};
    multiply<T, kTile, kDgrad>(shared, ring, stages, 0, lane, args.stages, stored, sums, [&] {
      if (tiles.left > 1) give_turn_to(group ^ 1);
    });
    const TilePosition<kTile> at(args, tiles.number());
    if (copies_results) {
      copied.write(&maps.result, at.first_pixel, at.first_channel, args.results.channels, warp,
                   lane, sums);
      continue;
    }
    write_block_by_block<T>(args, at, warp, lane, sums);
  }
  if (copies_results) copied.finish();
}

}  // namespace haloconv::sm90::channels_last
