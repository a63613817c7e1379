// Brings the operands of a block's tiles: one thread issues all copies.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/channels_last/kernel_before.cuh"
#include "conv2d/families/channels_last/result_boxes.h"
#include "conv2d/families/channels_last/scheduler.cuh"
#include "conv2d/families/channels_last/shared_memory.cuh"
#include "conv2d/families/channels_last/tensor_maps.h"
#include "cuda/expect_bytes.cuh"
#include "cuda/prefetch_pixels.cuh"

namespace haloconv::sm90::channels_last {

// Walks over a phase's units: filter rows, then columns, then channels. Past the end it stays on
// channels that do not exist, which read as zeros.
template <Tile kTile>
class UnitWalk {
 public:
  int32_t channel = 0;
  int32_t tap_h, tap_w;  // in the filter
  int32_t offset_h, offset_w;

  __device__ __forceinline__ UnitWalk(const Arguments& args, const TilePhase& phase)
      : tap_h(phase.tap_h),
        tap_w(phase.tap_w),
        offset_h(phase.offset_h),
        offset_w(phase.offset_w),
        args_(args),
        phase_(phase),
        rows_left_(phase.taps_h),
        columns_left_(phase.taps_w) {}

  __device__ __forceinline__ void advance() {
    channel += kTile.depth;
    if (channel < args_.channels) return;
    if (--columns_left_ > 0) {
      channel = 0;
      tap_w += args_.tap_step_w;
      offset_w += args_.offset_step_w;
      return;
    }
    if (--rows_left_ > 0) {
      channel = 0;
      columns_left_ = phase_.taps_w;
      tap_w = phase_.tap_w;
      offset_w = phase_.offset_w;
      tap_h += args_.tap_step_h;
      offset_h += args_.offset_step_h;
      return;
    }
    columns_left_ = 1;
    rows_left_ = 1;
  }

 private:
  const Arguments& args_;
  const TilePhase& phase_;
  int32_t rows_left_, columns_left_;
};

// The column of source pixels that a tile's pixels meet by a tap.
struct SourceColumn {
  int32_t image, h, w;  // what the tile's first pixel meets by the least offset

  __device__ __forceinline__ SourceColumn(const Arguments& args, const TilePhase& phase,
                                          int32_t first_pixel) {
    const Pixel pixel(phase, first_pixel);
    image = pixel.image;
    h = phase.first_h + pixel.row * args.step_h;
    w = phase.first_w + pixel.column * args.step_w;
  }

  __device__ __forceinline__ void copy(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                       int32_t channel, int32_t offset_w, int32_t offset_h) const {
    copy_pixels(to, map, barrier, channel, w, h, image, static_cast<uint16_t>(offset_w),
                static_cast<uint16_t>(offset_h));
  }

  // To the L2 cache alone.
  __device__ __forceinline__ void prefetch(const CUtensorMap* map, int32_t channel,
                                           int32_t offset_w, int32_t offset_h) const {
    prefetch_pixels(map, channel, w, h, image, static_cast<uint16_t>(offset_w),
                    static_cast<uint16_t>(offset_h));
  }
};

// How a unit of the filter is brought: of dgrad, whose channels are those of the filter's input, a
// row's at a time.
template <Tile kTile, bool kDgrad>
struct FilterUnit {
  static __device__ __forceinline__ void copy(const CUtensorMap* map, uint32_t to, uint32_t barrier,
                                              int32_t source_channel, int32_t tap_w, int32_t tap_h,
                                              int32_t channel) {
    if constexpr (kDgrad) {
      constexpr int kRow = filter_row_channels(kTile);
#pragma unroll
      for (int i = 0; i < kTile.channels / kRow; ++i) {
        copy_box(to + i * kTile.depth * (kRow * 2), map, barrier, channel + i * kRow, tap_w, tap_h,
                 source_channel);
      }
    } else {
      copy_box(to, map, barrier, source_channel, tap_w, tap_h, channel);
    }
  }

  // To the L2 cache alone.
  static __device__ __forceinline__ void prefetch(const CUtensorMap* map, int32_t source_channel,
                                                  int32_t tap_w, int32_t tap_h, int32_t channel) {
    if constexpr (kDgrad) {
      constexpr int kRow = filter_row_channels(kTile);
      for (int i = 0; i < kTile.channels / kRow; ++i) {
        prefetch_box(map, channel + i * kRow, tap_w, tap_h, source_channel);
      }
    } else {
      prefetch_box(map, source_channel, tap_w, tap_h, channel);
    }
  }
};

// prefetch.h. The L2 cache has what the kernel before writes, so that nothing stale can be read
// later. All blocks want the same filter, of which each brings one unit.
template <Tile kTile, bool kDgrad>
__device__ __forceinline__ void prefetch_first_stages(const Arguments& args, const TensorMaps& maps,
                                                      int32_t first_tile, int32_t tile_step) {
  int32_t ahead = args.prefetched_stages;
  for (int32_t tile = first_tile; tile < args.tiles && ahead > 0; tile += tile_step) {
    const TilePosition<kTile> at(args, tile);
    const TilePhase& phase = args.phase[at.phase];
    const SourceColumn source(args, phase, at.first_pixel);
    UnitWalk<kTile> unit(args, phase);
    const int32_t units = min(stages_of_phase<kTile>(args, phase), ahead) * units_of(kTile);
    for (int32_t i = 0; i < units; ++i) {
      source.prefetch(&maps.source[at.phase], unit.channel, unit.offset_w, unit.offset_h);
      if (tile == first_tile && i == tile % units) {
        FilterUnit<kTile, kDgrad>::prefetch(&maps.filter, unit.channel, unit.tap_w, unit.tap_h,
                                            at.first_channel);
      }
      unit.advance();
    }
    ahead -= units / units_of(kTile);
  }
}

// Filter::copy() brings a unit of the filter, as FilterUnit's does. A residual that passes through
// the ring is sent for at a tile's beginning where the ring is too short to reach it from there.
template <Tile kTile, class Filter, bool kInBoxes>
__device__ __forceinline__ void produce(const Arguments& args, const TensorMaps& maps,
                                        const SharedMemory<kTile>& shared, int32_t first_tile,
                                        int32_t tile_step) {
  constexpr uint32_t kBytes = SharedMemory<kTile>::kStageBytes;
  // Of a residual, if it comes by the ring.
  constexpr int kBoxes = boxes_of_stage(kTile), kStages = (boxes_of(kTile) + kBoxes - 1) / kBoxes;
  constexpr uint32_t kBoxBytes = kTile.pixels * kBoxRowBytes;
  RingPosition ring;
  KernelBefore before;
  for (int32_t tile = first_tile; tile < args.tiles; tile += tile_step) {
    const TilePosition<kTile> at(args, tile);
    const TilePhase& phase = args.phase[at.phase];
    const SourceColumn source(args, phase, at.first_pixel);
    UnitWalk<kTile> unit(args, phase);
    int32_t left = stages_of_phase<kTile>(args, phase);
    if (kInBoxes && left + kStages > args.stages) {
      for (int box = 0; box < boxes_of(kTile); ++box) {
        prefetch_box(&maps.residual, at.first_channel + box * kBoxChannels, at.first_pixel, 0, 0);
      }
    }
    for (; left > 0; --left) {
      mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);
      const uint32_t barrier = shared_address_of(&shared.full[ring.stage]);
      const uint32_t stage = shared.stage(ring.stage);
      before.wait();
      expect_bytes(&shared.full[ring.stage], kBytes);
#pragma unroll
      for (int i = 0; i < SharedMemory<kTile>::kUnits; ++i) {
        source.copy(stage + i * SharedMemory<kTile>::kSourceUnit, &maps.source[at.phase], barrier,
                    unit.channel, unit.offset_w, unit.offset_h);
        Filter::copy(&maps.filter,
                     stage + SharedMemory<kTile>::kFilter + i * SharedMemory<kTile>::kFilterUnit,
                     barrier, unit.channel, unit.tap_w, unit.tap_h, at.first_channel);
        unit.advance();
      }
      ring.advance(args.stages);
    }
    if constexpr (kInBoxes) {
      for (int first = 0; first < boxes_of(kTile); first += kBoxes) {
        uint64_t* const full = &shared.full[ring.stage];
        mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);
        before.wait();
        const int boxes = min(kBoxes, boxes_of(kTile) - first);
        expect_bytes(full, boxes * kBoxBytes);
        for (int box = 0; box < boxes; ++box) {
          copy_box(shared.stage(ring.stage) + box * kBoxBytes, &maps.residual,
                   shared_address_of(full), at.first_channel + (first + box) * kBoxChannels,
                   at.first_pixel, 0, 0);
        }
        ring.advance(args.stages);
      }
    }
  }
  before.wait();
}

}  // namespace haloconv::sm90::channels_last
