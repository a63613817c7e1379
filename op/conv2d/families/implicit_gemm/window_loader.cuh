// Brings windows of the source and stages of the filter to shared memory.
#pragma once

#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/families/implicit_gemm/loader.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::implicit_gemm {

// A block's place: which channels, which patch of which image and phase, which group.
struct PatchPosition {
  int32_t channel;  // the first, in the group
  int32_t phase, group;
  int32_t row, column;  // of the phase, where the patch begins
  int64_t image;

  __device__ __forceinline__ PatchPosition(const Arguments& args, const Tile& tile) {
    const TilePosition at(args, tile);
    channel = at.channel, phase = at.phase, group = at.group;
    const Phase& of = args.phases[phase];
    const auto patch = static_cast<uint32_t>(at.pixel / tile.pixels);
    const uint32_t columns = (of.w.pixels + kPatchColumns - 1) / kPatchColumns;
    const uint32_t rows = (of.h.pixels + patch_rows(tile) - 1) / patch_rows(tile);
    const uint32_t line = patch / columns;
    column = static_cast<int32_t>(patch - line * columns) * kPatchColumns;
    image = line / rows;
    row = static_cast<int32_t>(line % rows) * patch_rows(tile);
  }

  // As TilePosition's.
  __device__ __forceinline__ int64_t destination(const Arguments& args, int32_t number) const {
    const Phase& of = args.phases[phase];
    const Pixel pixel{image, row + number / kPatchColumns, column + number % kPatchColumns};
    if (pixel.row >= of.h.pixels || pixel.column >= of.w.pixels) return kNowhere;
    return destination_pixel(args.geometry, of, pixel);
  }
};

// Stages of the filter: kRowUnits units of a chunk's taps, of one tap or, where a pixel has fewer,
// of neighbouring ones.
template <class T, int kIndex>
class WindowFilterLoader {
  using Rows = UnitRows<kIndex>;
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);

 public:
  __device__ __forceinline__ WindowFilterLoader(const Arguments& args, const PatchPosition& at)
      : windows_(args.windows), channel_units_(args.channel_units.divisor) {
    const Phase& phase = args.phases[at.phase];
    const int32_t channel = at.channel + rows_.first_row;
    taps_ = phase.taps.divisor;
    channels_left_ = args.geometry.rows - channel;
    distance_ = int64_t{Rows::kRowStep} * phase.reduction;
    filter_ = static_cast<const T*>(args.filter) + at.group * args.filter_group +
              phase.packed_offset + int64_t{channel} * phase.reduction;
  }

  // The next stage, to where `stage` is in shared memory; nothing after the last.
  __device__ __forceinline__ void fetch_next(uint32_t stage) {
    if (chunk_ == windows_.chunks) return;
    const int32_t number = step_ * kRowUnits + rows_.unit;
    const int32_t tap = number >> windows_.log_units;
    const int32_t unit =
        (chunk_ << windows_.log_units) + (number & (windows_.units() - 1));  // of the channels'
    const bool exists = tap < taps_ && unit < channel_units_;
    const T* from = filter_ + (tap * channel_units_ + unit) * kUnitElements;
    const uint32_t to = stage + static_cast<uint32_t>(rows_.place);
#pragma unroll
    for (int i = 0; i < Rows::kChannelRows; ++i) {
      const bool inside = exists && i * Rows::kRowStep < channels_left_;
      copy_async_bytes<kUnitBytes>(to + i * Rows::kRowStep * kRowBytes, from,
                                   inside ? kUnitBytes : 0);
      from += distance_;
    }
    if (++step_ == windows_.chunk_steps(taps_)) {
      step_ = 0;
      ++chunk_;
    }
  }

 private:
  const Windows& windows_;
  Rows rows_;
  const T* filter_;
  int64_t distance_;
  int32_t taps_, channel_units_, channels_left_;
  int32_t chunk_ = 0, step_ = 0;
};

// A thread copies every so many'th unit of a window, or every so many'th pixel's unit, from
// first_item() on.
template <class T, int kIndex, Access kAccess>
class WindowLoader {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr bool kByUnits = kAccess == Access::kUnits;
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;

 public:
  static constexpr int kItemStep = kTile.threads();

  __device__ __forceinline__ WindowLoader(const Arguments& args, const PatchPosition& at)
      : args_(args) {
    const Gather& g = args.geometry;
    const Phase& phase = args.phases[at.phase];
    h_ = at.row + phase.h.origin + phase.h.first_shift -
         taps_before(phase.h.taps, g.axis_h.shift_step);
    w_ = at.column + phase.w.origin + phase.w.first_shift -
         taps_before(phase.w.taps, g.axis_w.shift_step);
    columns_ = kPatchColumns + tap_reach(phase.w.taps, g.axis_w.shift_step);
    pixels_ = (patch_rows(kTile) + tap_reach(phase.h.taps, g.axis_h.shift_step)) *
              args.windows.pitch.divisor;
    source_ = static_cast<const T*>(args.source) + int64_t{at.group} * g.channels * g.source.c +
              at.image * g.source.n;
  }

  static __device__ __forceinline__ int32_t first_item() {
    return static_cast<int32_t>(threadIdx.x);
  }
  __device__ __forceinline__ int32_t items() const { return pixels_ << args_.windows.log_units; }

  // An item, as it lies in both memories.
  struct Item {
    const T* from;
    int32_t channels;  // of the unit, to be read: the others are zeros
    int32_t to;        // in the window; negative: there is no such item
  };

  __device__ __forceinline__ Item item(int32_t number, int32_t chunk) const {
    const Gather& g = args_.geometry;
    const Windows& windows = args_.windows;
    // Neighbouring threads have neighbours in memory: units of a pixel, or pixels.
    int32_t pixel = number, unit = 0;
    if constexpr (kByUnits) {
      pixel = number >> windows.log_units;
      unit = number & (windows.units() - 1);
    } else {
      for (; pixel >= pixels_; pixel -= pixels_) ++unit;
    }
    const int32_t y = windows.pitch.quotient(pixel);
    const int32_t x = pixel - y * windows.pitch.divisor;
    const int32_t channel = ((chunk << windows.log_units) + unit) * kUnitElements;
    const bool inside = static_cast<uint32_t>(h_ + y) < static_cast<uint32_t>(g.source_h) &&
                        static_cast<uint32_t>(w_ + x) < static_cast<uint32_t>(g.source_w);
    const bool exists = number < items() && x < columns_;
    const int64_t distance = kByUnits ? channel : channel * g.source.c;
    return {source_ + ((h_ + y) * g.source.h + (w_ + x) * g.source.w + distance),
            inside ? g.channels - channel : 0, exists ? windows.place(pixel, unit) : -1};
  }

  // Access::kUnits.
  __device__ __forceinline__ void copy(const Item& item, uint32_t window) const {
    if (item.to >= 0) copy_async_cached(window + item.to, item.from, item.channels > 0);
  }

  // Access::kElements: what is on its way, through registers.
  struct Part {
    Bits elements[kUnitElements];
    int32_t to;
  };

  __device__ __forceinline__ void load(const Item& item, Part& part) const {
    const T* from = item.from;
    part.to = item.to;
#pragma unroll
    for (int j = 0; j < kUnitElements; ++j) {
      load_global_bits(from, part.elements[j], item.to >= 0 && j < item.channels);
      from += args_.geometry.source.c;
    }
  }

  __device__ __forceinline__ void store(const Part& part, uint32_t window) const {
    uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (sizeof(T) == 4) {
        words[j] = round_to_tf32(__uint_as_float(part.elements[j]));
      } else {
        words[j] = part.elements[2 * j] | uint32_t{part.elements[2 * j + 1]} << 16;
      }
    }
    if (part.to >= 0) store_unit(window + part.to, words);
  }

 private:
  const Arguments& args_;
  const T* source_;
  int32_t h_, w_;  // of the window's first pixel
  int32_t columns_, pixels_;
};

}  // namespace haloconv::implicit_gemm
