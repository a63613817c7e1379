// Brings rows of the source, one after the other, to a warp's ring: descents.h.
#pragma once

#include "conv2d/families/implicit_gemm/descents.h"
#include "conv2d/families/implicit_gemm/loader.cuh"

namespace haloconv::implicit_gemm {

// A warp's descent.
struct Descent {
  int64_t image;
  int32_t row, column;  // of results, where it begins
  int32_t rows;

  __device__ __forceinline__ Descent(const Arguments& args, int32_t number) {
    const Patches& patches = args.patches[0];
    const int32_t line = patches.columns.quotient(number);
    column = (number - line * patches.columns.divisor) * kDescentColumns;
    const int32_t image_number = patches.rows.quotient(line);
    row = (line - image_number * patches.rows.divisor) * args.strips.rows;
    image = image_number;
    rows = min(args.strips.rows, args.phases[0].h.pixels - row);
  }
};

// Its rows of the source.
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
    first_ = static_cast<const float*>(args.source) + of.image * g.source.n +
             int64_t{group} * g.channels * g.source.c + row_ * g.source.h + column_;
  }

  __device__ __forceinline__ DescentLine line() const {
    return {column_, static_cast<uint32_t>(reinterpret_cast<uintptr_t>(first_))};
  }
  __device__ __forceinline__ void next_row() {
    first_ += args_.geometry.source.h;
    ++row_;
  }

 protected:
  const Arguments& args_;
  int32_t row_, column_;
  const float* first_;  // the row's first pixel, of the group's first channel
};

// A lane copies a unit of each channel's line.
class DescentLoader : DescentSource {
 public:
  __device__ __forceinline__ DescentLoader(const Arguments& args, const Descent& of, int32_t group,
                                           int32_t lane)
      : DescentSource(args, of, group), lane_(lane) {
    begin_row();
  }

  // The next chunk of channels; after a row's last the next row's first.
  __device__ __forceinline__ void copy(uint32_t stage) {
    const int64_t step = args_.geometry.source.c;
    const uint32_t to = stage + lane_ * kUnitBytes;
#pragma unroll
    for (int i = 0; i < kDescentDepth; ++i) {
      if (exists_) {
        copy_async_bytes<kUnitBytes>(to + i * kDescentLineBytes, from_,
                                     i < channels_left_ ? bytes_ : 0);
      }
      from_ += step;
    }
    channels_left_ -= kDescentDepth;
    if (channels_left_ > 0) return;
    next_row();
    begin_row();
  }

 private:
  __device__ __forceinline__ void begin_row() {
    const Gather& g = args_.geometry;
    const DescentLine line = this->line();
    const bool inside = static_cast<uint32_t>(row_) < static_cast<uint32_t>(g.source_h);
    exists_ = line.has_unit(lane_);
    bytes_ = inside ? line.unit_bytes(lane_, g.source_w) : 0;
    from_ = first_ - line.shift + lane_ * 4;
    channels_left_ = g.channels;
  }

  int32_t lane_, bytes_, channels_left_;
  bool exists_;
  const float* from_;
};

// Zeros for what lies before the source's row in a stage. Two barriers of the warp must enclose it.
__device__ __forceinline__ void clear_before_row(uint32_t stage, int32_t before, int32_t lane) {
  const int32_t pixel = (before & -4) + lane % 4;
  if (pixel < before && pixel < kDescentLineUnits * 4) {
    store_shared_bits(stage + lane / 4 * kDescentLineBytes + pixel * 4, 0u);
  }
}

}  // namespace haloconv::implicit_gemm
