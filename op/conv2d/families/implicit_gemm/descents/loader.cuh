// Brings rows of the source, one after the other, to a warp's ring: descents.h.
#pragma once

#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/families/implicit_gemm/loader.cuh"

namespace haloconv::implicit_gemm {

// A warp's descent.
struct Descent {
  int64_t image;
  int32_t row, column;  // of results, where it begins; the column may lie before the first
  int32_t rows;

  __device__ __forceinline__ Descent(const Arguments& args, int32_t lead, int32_t number) {
    const Patches& patches = args.patches[0];
    const int32_t line = patches.columns.quotient(number);
    column = (number - line * patches.columns.divisor) * kDescentColumns - lead;
    const int32_t image_number = patches.rows.quotient(line);
    row = (line - image_number * patches.rows.divisor) * args.strips.rows;
    image = image_number;
    rows = min(args.strips.rows, args.phases[0].h.pixels - row);
  }
};

// Its rows of the source.
template <class T>
class DescentSource {
 public:
  __device__ __forceinline__ DescentSource(const Arguments& args, const Descent& of, int32_t group)
      : args_(args) {
    const Gather& g = args.geometry;
    const Phase& phase = args.phases[0];
    row_ = of.row + phase.h.origin + phase.h.first_shift -
           taps_before(kDescentTaps, g.axis_h.shift_step);
    column_ = of.column + phase.w.origin + phase.w.first_shift -
              taps_before(kDescentTaps, g.axis_w.shift_step);
    first_ = static_cast<const T*>(args.source) + of.image * g.source.n +
             int64_t{group} * g.channels * g.source.c + row_ * g.source.h + column_;
  }

  // Of the group's first channel, or of the next.
  __device__ __forceinline__ DescentLine<sizeof(T)> line(int32_t channel = 0) const {
    return {column_, static_cast<uint32_t>(
                         reinterpret_cast<uintptr_t>(first_ + channel * args_.geometry.source.c))};
  }
  __device__ __forceinline__ void next_row() {
    first_ += args_.geometry.source.h;
    ++row_;
  }

 protected:
  const Arguments& args_;
  int32_t row_, column_;
  const T* first_;  // the row's first pixel, of the group's first channel
};

// A lane copies a unit of the line of each channel, or of 16-bit types of every other one.
template <class T>
class DescentLoader : DescentSource<T> {
  static constexpr int kAlike = descent_channels_alike(sizeof(T));
  static constexpr int kLanes = descent_line_lanes(sizeof(T));
  static constexpr int kDepth = descent_depth(sizeof(T));

 public:
  __device__ __forceinline__ DescentLoader(const Arguments& args, const Descent& of, int32_t group,
                                           int32_t lane)
      : DescentSource<T>(args, of, group), unit_(lane % kLanes), channel_(lane / kLanes) {
    begin_row();
  }

  // The next chunk of channels; after a row's last the next row's first.
  __device__ __forceinline__ void copy(uint32_t stage) {
    constexpr int32_t kLineBytes = descent_line_bytes(sizeof(T));
    const int64_t step = kAlike * args_.geometry.source.c;
    const uint32_t to = stage + channel_ * kLineBytes + unit_ * kUnitBytes;
#pragma unroll
    for (int i = 0; i < kDepth; i += kAlike) {
      if (exists_) {
        copy_async_bytes<kUnitBytes>(to + i * kLineBytes, from_, i < channels_left_ ? bytes_ : 0);
      }
      from_ += step;
    }
    channels_left_ -= kDepth;
    if (channels_left_ + channel_ > 0) return;
    this->next_row();
    begin_row();
  }

 private:
  using DescentSource<T>::args_;
  using DescentSource<T>::first_;
  using DescentSource<T>::row_;

  __device__ __forceinline__ void begin_row() {
    const Gather& g = args_.geometry;
    const DescentLine<sizeof(T)> line = this->line(channel_);
    const bool inside = static_cast<uint32_t>(row_) < static_cast<uint32_t>(g.source_h);
    exists_ = line.has_unit(unit_);
    bytes_ = inside ? line.unit_bytes(unit_, g.source_w) : 0;
    from_ = first_ + channel_ * g.source.c - line.shift + unit_ * line.kUnitPixels;
    channels_left_ = g.channels - channel_;
  }

  int32_t unit_, channel_, bytes_;
  int32_t channels_left_;  // from the lane's own on
  bool exists_;
  const T* from_;
};

// Zeros for what lies before the source's row in a stage, of channel lane / 4 and those that begin
// alike. Two barriers of the warp must enclose it.
template <class T>
__device__ __forceinline__ void clear_before_row(uint32_t stage, int32_t before, int32_t lane) {
  constexpr int32_t kUnitPixels = DescentLine<sizeof(T)>::kUnitPixels;
  constexpr int32_t kLineBytes = descent_line_bytes(sizeof(T));
  constexpr int32_t kWordPixels = kWordBytes / sizeof(T);
  const int32_t pixel = (before & -kUnitPixels) + lane % 4 * kWordPixels;
  if (pixel >= before || pixel >= kLineBytes / static_cast<int32_t>(sizeof(T))) return;
#pragma unroll
  for (int i = 0; i < descent_depth(sizeof(T)); i += 8) {
    store_shared_bits(stage + (lane / 4 + i) * kLineBytes + pixel * sizeof(T), 0u);
  }
}

}  // namespace haloconv::implicit_gemm
