// Brings stages of both operands to shared memory by asynchronous copies.
#pragma once

#include "conv2d/device/site.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "cuda/copy_async.cuh"
#include "cuda/copy_cached.cuh"

namespace haloconv::implicit_gemm {

// A pixel's place where the tile has none of that number.
inline constexpr int64_t kNowhere = -1;

// A block's place: which channels, which pixels of which phase, which group.
struct TilePosition {
  int32_t channel;  // the first, in the group
  int64_t pixel;    // the first of the phase
  int32_t phase, group;

  // Channels change fastest, so that blocks that run together gather the same pixels.
  __device__ __forceinline__ TilePosition(const Arguments& args, const Tile& tile) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    const int32_t rest = args.channel_tiles.quotient(block);
    channel = (block - rest * args.channel_tiles.divisor) * tile.channels;
    group = args.geometry.groups == 1 ? 0 : rest / static_cast<int32_t>(args.pixel_tiles);
    const int32_t pixel_tile = rest - group * static_cast<int32_t>(args.pixel_tiles);
    phase = 0;
    while (phase + 1 < args.phase_count && pixel_tile >= args.phases[phase + 1].first_tile) ++phase;
    pixel = int64_t{pixel_tile - args.phases[phase].first_tile} * tile.pixels;
  }

  // Where the results of the pixel of that number go, in elements, for channel 0 of the tensor.
  __device__ __forceinline__ int64_t destination(const Arguments& args, int32_t number) const {
    const Phase& of = args.phases[phase];
    const PixelRange range(pixel, of.plane, of.columns);
    return pixel + number < of.pixels ? destination_pixel(args.geometry, of, range[number])
                                      : kNowhere;
  }
};

// A thread copies the unit of one number of several rows, kRowStep apart. Rows of a stage: first
// the pixels', then the channels'.
template <int kIndex>
struct UnitRows {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr int kRowStep = kTile.threads() / kRowUnits;
  static constexpr int kPixelRows = kTile.pixels / kRowStep;
  static constexpr int kChannelRows = kTile.channels / kRowStep;
  static_assert(kRowStep % 8 == 0 && kPixelRows * kRowStep == kTile.pixels &&
                kChannelRows * kRowStep == kTile.channels);

  int32_t unit = static_cast<int32_t>(threadIdx.x) % kRowUnits;
  int32_t first_row = static_cast<int32_t>(threadIdx.x) / kRowUnits;
  int32_t place = place_of_unit(first_row, unit);
};

template <class T, int kIndex>
class FilterLoader {
  using Rows = UnitRows<kIndex>;
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);

 public:
  __device__ __forceinline__ FilterLoader(const Arguments& args, const TilePosition& at)
      : reduction_(args.phases[at.phase].reduction) {
    const int32_t channel = at.channel + rows_.first_row;
    channels_left_ = args.geometry.rows - channel;
    filter_ = static_cast<const T*>(args.filter) + at.group * args.filter_group +
              args.phases[at.phase].packed_offset + int64_t{channel} * reduction_;
  }

  // The stage of so many'th units of the reduction, to where `stage` is in shared memory.
  __device__ __forceinline__ void fetch(int32_t step, uint32_t stage) const {
    const int32_t element = (step * kRowUnits + rows_.unit) * kUnitElements;
    const bool exists = element < reduction_;
    const uint32_t to = stage + static_cast<uint32_t>(rows_.place) + Rows::kTile.pixels * kRowBytes;
    const T* from = filter_ + element;
#pragma unroll
    for (int i = 0; i < Rows::kChannelRows; ++i) {
      const bool inside = exists && i * Rows::kRowStep < channels_left_;
      copy_async_bytes<kUnitBytes>(to + i * Rows::kRowStep * kRowBytes, from,
                                   inside ? kUnitBytes : 0);
      from += int64_t{Rows::kRowStep} * reduction_;
    }
  }

 private:
  Rows rows_;
  const T* filter_;
  int32_t reduction_, channels_left_;
};

// Access::kUnits.
template <class T, int kIndex>
class UnitLoader {
  using Rows = UnitRows<kIndex>;
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);

 public:
  __device__ __forceinline__ UnitLoader(const Arguments& args, const TilePosition& at)
      : args_(args), phase_(args.phases[at.phase]) {
    const Gather& g = args.geometry;
    const PixelRange range(at.pixel, phase_.plane, phase_.columns);
#pragma unroll
    for (int i = 0; i < Rows::kPixelRows; ++i) {
      const int32_t row = rows_.first_row + i * Rows::kRowStep;
      sites_[i] = at.pixel + row < phase_.pixels ? gather_pixel(g, phase_, range[row]) : outside();
    }
    source_ = static_cast<const T*>(args.source) + int64_t{at.group} * g.channels * g.source.c;
  }

  __device__ __forceinline__ void fetch(int32_t step, uint32_t stage) const {
    const Gather& g = args_.geometry;
    const int32_t unit = step * kRowUnits + rows_.unit;
    const bool exists = unit * kUnitElements < phase_.reduction;
    const UnitPlace at(args_.channel_units, phase_.taps_w, unit, kUnitElements);
    const UnitShift shift(g, phase_, at);
    const uint32_t to = stage + static_cast<uint32_t>(rows_.place);
#pragma unroll
    for (int i = 0; i < Rows::kPixelRows; ++i) {
      const Site& site = sites_[i];
      const bool inside =
          exists && static_cast<uint32_t>(site.h + shift.h) < static_cast<uint32_t>(g.source_h) &&
          static_cast<uint32_t>(site.w + shift.w) < static_cast<uint32_t>(g.source_w);
      copy_async_cached(to + i * Rows::kRowStep * kRowBytes,
                        source_ + (site.offset + shift.elements), inside);
    }
  }

 private:
  const Arguments& args_;
  const Phase& phase_;
  Rows rows_;
  Site sites_[Rows::kPixelRows];
  const T* source_;
};

}  // namespace haloconv::implicit_gemm
