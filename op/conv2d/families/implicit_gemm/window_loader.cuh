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
    const Patches& patches = args.patches[phase];
    const auto patch = static_cast<int32_t>(at.pixel / tile.pixels);
    const int32_t line = patches.columns.quotient(patch);
    column = (patch - line * patches.columns.divisor) * kPatchColumns;
    const int32_t number = patches.rows.quotient(line);
    row = (line - number * patches.rows.divisor) * patch_rows(tile);
    image = number;
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
// of two neighbouring ones, of which the second may be the next chunk's first.
template <class T, int kIndex>
class WindowFilterLoader {
  using Rows = UnitRows<kIndex>;
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);

 public:
  __device__ __forceinline__ WindowFilterLoader(const Arguments& args, const PatchPosition& at)
      : units_(args.windows.units()),
        channel_units_(args.channel_units.divisor),
        tap_step_(kRowUnits >> args.windows.log_units) {
    const Phase& phase = args.phases[at.phase];
    const int32_t channel = at.channel + rows_.first_row;
    taps_ = phase.h.taps * phase.w.taps;
    channels_left_ = args.geometry.rows - channel;
    distance_ = int64_t{Rows::kRowStep} * phase.reduction;
    tap_ = rows_.unit >> args.windows.log_units;
    unit_ = rows_.unit & (units_ - 1);
    filter_ = static_cast<const T*>(args.filter) + at.group * args.filter_group +
              phase.packed_offset + int64_t{channel} * phase.reduction +
              (tap_ * channel_units_ + unit_) * kUnitElements;
    wrap();
  }

  // The next stage, to where `stage` is in shared memory; zeros after the last.
  __device__ __forceinline__ void fetch_next(uint32_t stage) {
    const bool exists = unit_ < channel_units_;
    const T* from = filter_;
    const uint32_t to = stage + static_cast<uint32_t>(rows_.place);
#pragma unroll
    for (int i = 0; i < Rows::kChannelRows; ++i) {
      const bool inside = exists && i * Rows::kRowStep < channels_left_;
      copy_async_bytes<kUnitBytes>(to + i * Rows::kRowStep * kRowBytes, from,
                                   inside ? kUnitBytes : 0);
      from += distance_;
    }
    tap_ += tap_step_;
    filter_ += tap_step_ * channel_units_ * kUnitElements;
    wrap();
  }

 private:
  // Behind a chunk's last tap comes the next chunk's first.
  __device__ __forceinline__ void wrap() {
    const bool wraps = tap_ >= taps_;
    filter_ += wraps ? (units_ - taps_ * channel_units_) * kUnitElements : 0;
    unit_ += wraps ? units_ : 0;
    tap_ -= wraps ? taps_ : 0;
  }

  Rows rows_;
  const T* filter_;  // of the next stage
  int64_t distance_;
  int32_t units_, channel_units_, tap_step_, taps_, channels_left_;
  int32_t tap_, unit_;  // of the next stage; the unit counts in the channels
};

// A thread copies every so many'th unit of a window, or every so many'th pixel's unit. Neighbouring
// threads have neighbours in memory: units of a pixel, or pixels.
template <class T, int kIndex, Access kAccess>
class WindowLoader {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr bool kByUnits = kAccess == Access::kUnits;
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);
  static constexpr int kThreads = kTile.threads();
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;

 public:
  __device__ __forceinline__ WindowLoader(const Arguments& args, const PatchPosition& at)
      : args_(args) {
    const Gather& g = args.geometry;
    const Windows& windows = args.windows;
    const Phase& phase = args.phases[at.phase];
    h_ = at.row + phase.h.origin + phase.h.first_shift -
         taps_before(phase.h.taps, g.axis_h.shift_step);
    w_ = at.column + phase.w.origin + phase.w.first_shift -
         taps_before(phase.w.taps, g.axis_w.shift_step);
    rows_ = patch_rows(kTile) + tap_reach(phase.h.taps, g.axis_h.shift_step);
    columns_ = kPatchColumns + tap_reach(phase.w.taps, g.axis_w.shift_step);
    const auto number = static_cast<int32_t>(threadIdx.x);
    const int32_t pixel = kByUnits ? number >> windows.log_units : number;
    first_y_ = windows.pitch.quotient(pixel);
    first_x_ = pixel - first_y_ * windows.pitch.divisor;
    first_unit_ = kByUnits ? number & (windows.units() - 1) : 0;
    first_ = static_cast<const T*>(args.source) + at.image * g.source.n +
             (int64_t{at.group} * g.channels + first_unit_ * kUnitElements) * g.source.c +
             (h_ + first_y_) * g.source.h + (w_ + first_x_) * g.source.w;
  }

  // Of a thread.
  __device__ __forceinline__ int32_t items() const {
    const Windows& windows = args_.windows;
    return ((rows_ * windows.pitch.divisor << windows.log_units) + kThreads - 1) / kThreads;
  }

  // The next item is the first of the chunk.
  __device__ __forceinline__ void begin(int32_t chunk) {
    const int32_t channel = (chunk << args_.windows.log_units) * kUnitElements;
    y_ = first_y_;
    x_ = first_x_;
    unit_ = first_unit_;
    channel_ = channel + unit_ * kUnitElements;
    from_ = first_ + channel * args_.geometry.source.c;
    to_ = args_.windows.place(y_ * args_.windows.pitch.divisor + x_, unit_);
  }

  // Access::kUnits: one item.
  __device__ __forceinline__ void copy(uint32_t window) {
    const bool inside = is_inside() && channel_ < args_.geometry.channels;
    copy_async_cached_if(exists(), window + to_, from_, inside);
    advance();
    // As many pixels, a multiple of 32, are behind the same unit of this one.
    to_ += kThreads * kUnitBytes;
  }

  // Access::kElements: what is on its way, through registers.
  struct Part {
    Bits elements[kUnitElements];
    int32_t to;  // in the window; negative: there is no such item
  };

  __device__ __forceinline__ void load(Part& part) {
    const Gather& g = args_.geometry;
    const Windows& windows = args_.windows;
    const bool wanted = exists() && unit_ < windows.units();
    const int32_t channels = wanted && is_inside() ? g.channels - channel_ : 0;
    part.to = wanted ? windows.place(y_ * windows.pitch.divisor + x_, unit_) : -1;
    const T* from = from_;
#pragma unroll
    for (int j = 0; j < kUnitElements; ++j) {
      load_global_bits(from, part.elements[j], j < channels);
      from += g.source.c;
    }
    advance();
    // A window has at least as many pixels as there are threads.
    const bool is_unit = y_ >= rows_;
    y_ -= is_unit ? rows_ : 0;
    unit_ += is_unit ? 1 : 0;
    channel_ += is_unit ? kUnitElements : 0;
    from_ += is_unit ? kUnitElements * g.source.c - rows_ * g.source.h : 0;
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
  __device__ __forceinline__ bool exists() const { return y_ < rows_ && x_ < columns_; }
  __device__ __forceinline__ bool is_inside() const {
    const Gather& g = args_.geometry;
    return static_cast<uint32_t>(h_ + y_) < static_cast<uint32_t>(g.source_h) &&
           static_cast<uint32_t>(w_ + x_) < static_cast<uint32_t>(g.source_w);
  }
  // As many pixels further as threads have between them.
  __device__ __forceinline__ void advance() {
    const Windows& windows = args_.windows;
    x_ += windows.step_x;
    y_ += windows.step_y;
    from_ += windows.step;
    const bool wraps = x_ >= windows.pitch.divisor;
    x_ -= wraps ? windows.pitch.divisor : 0;
    y_ += wraps ? 1 : 0;
    from_ += wraps ? windows.wrap : 0;
  }

  const Arguments& args_;
  int32_t h_, w_;  // of the window's first pixel
  int32_t rows_, columns_;
  // Of a thread's first item: its place in the window, and of the first chunk in memory.
  int32_t first_y_, first_x_, first_unit_;
  const T* first_;
  // Of the next item, and its place in the window's memory.
  int32_t y_, x_, unit_, channel_, to_;
  const T* from_;
};

}  // namespace haloconv::implicit_gemm
