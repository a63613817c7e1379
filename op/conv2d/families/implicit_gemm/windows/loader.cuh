// Brings windows of the source and stages of the filter to shared memory.
#pragma once

#include "conv2d/families/implicit_gemm/loader.cuh"

namespace haloconv::implicit_gemm {

// A block's place: which channels, which patch of which image and phase, which group.
struct PatchPosition {
  int32_t channel;  // the first, in the group
  int32_t phase, group;
  int32_t row, column;  // of the phase, where the patch begins
  int64_t image;

  __device__ __forceinline__ PatchPosition(const Arguments& args, const Tile& tile)
      : PatchPosition(args, tile, TilePosition(args, tile)) {}
  __device__ __forceinline__ PatchPosition(const Arguments& args, const Tile& tile,
                                           const TilePosition& at)
      : PatchPosition(args, args.windows.patch_rows(tile.pixels), at.phase, at.group,
                      static_cast<int32_t>(at.pixel / tile.pixels)) {
    channel = at.channel;
  }
  // Of no channel, by the patch's number in its phase.
  __device__ __forceinline__ PatchPosition(const Arguments& args, int32_t patch_rows, int32_t phase,
                                           int32_t group, int32_t patch)
      : channel(0), phase(phase), group(group) {
    const Patches& patches = args.patches[phase];
    const int32_t line = patches.columns.quotient(patch);
    column = (patch - line * patches.columns.divisor) << args.windows.log_columns;
    const int32_t number = patches.rows.quotient(line);
    row = (line - number * patches.rows.divisor) * patch_rows;
    image = number;
  }

  // As TilePosition's.
  __device__ __forceinline__ int64_t destination(const Arguments& args, int32_t number) const {
    const Phase& of = args.phases[phase];
    const Pixel pixel{image, row + (number >> args.windows.log_columns),
                      column + (number & (args.windows.patch_columns() - 1))};
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
    const bool exists = unit_ < channel_units_ && tap_ < taps_;
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

// The ring of stages that a WindowFilterLoader fills.
template <class T, int kIndex>
class FilterStages {
  static constexpr uint32_t kStageBytes = filter_stage_bytes(kTiles[kIndex]);

 public:
  __device__ __forceinline__ FilterStages(const Arguments& args, const PatchPosition& at,
                                          uint32_t first)
      : loader_(args, at), first_(first), from_(first), to_(first) {}

  // All but one, a group of copies each.
  __device__ __forceinline__ void begin() {
    for (int i = 0; i < kFilterStages - 1; ++i) {
      fetch();
      commit_copies();
      to_ = after(to_);
    }
  }

  // The one behind those that are there or on their way.
  __device__ __forceinline__ void fetch() { loader_.fetch_next(to_); }

  // The stage that is multiplied.
  __device__ __forceinline__ uint32_t current() const { return from_; }
  __device__ __forceinline__ void advance() {
    from_ = after(from_);
    to_ = after(to_);
  }

 private:
  __device__ __forceinline__ uint32_t after(uint32_t stage) const {
    return stage + kStageBytes == first_ + kFilterStages * kStageBytes ? first_
                                                                       : stage + kStageBytes;
  }

  WindowFilterLoader<T, kIndex> loader_;
  uint32_t first_, from_, to_;
};

// Where a block's window begins in the source, and how much of its memory there is.
struct WindowOrigin {
  int32_t h, w, rows, columns;
  int64_t offset;  // elements to that pixel of the group's first channel

  __device__ __forceinline__ WindowOrigin(const Arguments& args, const PatchPosition& at,
                                          int32_t patch_rows) {
    const Gather& g = args.geometry;
    const Phase& phase = args.phases[at.phase];
    const int32_t lead = window_lead(args, phase);
    h = at.row + phase.h.origin + phase.h.first_shift -
        taps_before(phase.h.taps, g.axis_h.shift_step);
    w = at.column + phase.w.origin + phase.w.first_shift -
        taps_before(phase.w.taps, g.axis_w.shift_step) - lead;
    rows = patch_rows + tap_reach(phase.h.taps, g.axis_h.shift_step);
    columns = args.windows.patch_columns() + tap_reach(phase.w.taps, g.axis_w.shift_step) + lead;
    offset = at.image * g.source.n + int64_t{at.group} * g.channels * g.source.c + h * g.source.h +
             w * g.source.w;
  }
};

// Access::kUnits: a thread copies every so many'th unit of a window. Neighbouring threads have
// neighbours in memory, the units of a pixel.
template <class T, int kIndex>
class WindowLoader {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);
  static constexpr int kThreads = kTile.threads();

 public:
  __device__ __forceinline__ WindowLoader(const Arguments& args, const PatchPosition& at)
      : args_(args), origin_(args, at, args.windows.patch_rows(kTile.pixels)) {
    const Gather& g = args.geometry;
    const Windows& windows = args.windows;
    const auto number = static_cast<int32_t>(threadIdx.x);
    const int32_t pixel = number >> windows.log_units;
    first_y_ = windows.pitch.quotient(pixel);
    first_x_ = pixel - first_y_ * windows.pitch.divisor;
    first_unit_ = number & (windows.units() - 1);
    first_ = static_cast<const T*>(args.source) + origin_.offset +
             first_unit_ * kUnitElements * g.source.c + first_y_ * g.source.h +
             first_x_ * g.source.w;
  }

  // Of a thread.
  __device__ __forceinline__ int32_t items() const {
    const Windows& windows = args_.windows;
    return ((origin_.rows * windows.pitch.divisor << windows.log_units) + kThreads - 1) / kThreads;
  }

  // The next item is the first of the chunk.
  __device__ __forceinline__ void begin(int32_t chunk) {
    const int32_t channel = (chunk << args_.windows.log_units) * kUnitElements;
    y_ = first_y_;
    x_ = first_x_;
    channel_ = channel + first_unit_ * kUnitElements;
    from_ = first_ + channel * args_.geometry.source.c;
    to_ = args_.windows.place(y_ * args_.windows.pitch.divisor + x_, first_unit_);
  }

  // One item.
  __device__ __forceinline__ void copy(uint32_t window) {
    const Gather& g = args_.geometry;
    const Windows& windows = args_.windows;
    const bool exists = y_ < origin_.rows && x_ < origin_.columns;
    const bool inside = static_cast<uint32_t>(origin_.h + y_) < static_cast<uint32_t>(g.source_h) &&
                        static_cast<uint32_t>(origin_.w + x_) < static_cast<uint32_t>(g.source_w) &&
                        channel_ < g.channels;
    copy_async_cached_if(exists, window + to_, from_, inside);
    // As many pixels further as threads have between them: a multiple of 32, so that they lie as
    // far apart for each unit.
    x_ += windows.step_x;
    y_ += windows.step_y;
    from_ += windows.step;
    const bool wraps = x_ >= windows.pitch.divisor;
    x_ -= wraps ? windows.pitch.divisor : 0;
    y_ += wraps ? 1 : 0;
    from_ += wraps ? windows.wrap : 0;
    to_ += kThreads * kUnitBytes;
  }

 private:
  const Arguments& args_;
  WindowOrigin origin_;
  // Of a thread's first item: its place in the window, and of the first chunk in memory.
  int32_t first_y_, first_x_, first_unit_;
  const T* first_;
  // Of the next item, and its place in the window's memory.
  int32_t y_, x_, channel_, to_;
  const T* from_;
};

}  // namespace haloconv::implicit_gemm
