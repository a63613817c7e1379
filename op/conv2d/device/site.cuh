// A gathered element lies where a pixel and a tap meet: their offsets and coordinates add up.
#pragma once

#include <cstdint>

#include "conv2d/device/accumulator.cuh"
#include "conv2d/geometry/geometry.h"

namespace haloconv {

// One pixel, or one tap. `offset` counts elements from the group's first one.
struct alignas(16) Site {
  int64_t offset;
  int32_t h, w;
};

// Coordinates stay below 2^28 (beyond_limits), so a sum with this one is never inside an image.
inline constexpr int32_t kOutside = -(1 << 29);
// A tap with this coordinate stands for the constant 1 (the bias gradient's column).
inline constexpr int32_t kOne = kOutside - 1;

__device__ __forceinline__ Site outside() { return {0, kOutside, kOutside}; }

// The element where two sites meet, 0 outside the image.
template <class T>
__device__ __forceinline__ AccumulatorOf<T> gather_element(const T* source, const Site& a,
                                                           const Site& b, int32_t height,
                                                           int32_t width) {
  const bool inside = static_cast<uint32_t>(a.h + b.h) < static_cast<uint32_t>(height) &&
                      static_cast<uint32_t>(a.w + b.w) < static_cast<uint32_t>(width);
  return inside ? load(source + (a.offset + b.offset)) : AccumulatorOf<T>(0);
}

// One pixel of a grid of images, rows and columns.
struct Pixel {
  int64_t image;
  int32_t row, column;
};

// Counts pixels from `first`, which may pass 2^31; an image and the count from there, together, may
// not.
class PixelRange {
 public:
  __device__ __forceinline__ PixelRange(int64_t first, const FastDiv& plane, const FastDiv& columns)
      : plane_(plane),
        columns_(columns),
        first_image_(first <= INT32_MAX ? plane.quotient(static_cast<int32_t>(first))
                                        : first / plane.divisor),
        first_rest_(static_cast<int32_t>(first - first_image_ * plane.divisor)) {}

  __device__ __forceinline__ Pixel operator[](int32_t index) const {
    const int32_t number = first_rest_ + index;
    const int32_t images = plane_.quotient(number);
    const int32_t rest = number - images * plane_.divisor;
    const int32_t row = columns_.quotient(rest);
    return {first_image_ + images, row, rest - row * columns_.divisor};
  }

 private:
  const FastDiv& plane_;
  const FastDiv& columns_;
  int64_t first_image_;
  int32_t first_rest_;
};

// The source pixel that a destination pixel of a phase meets before any tap's shift.
__device__ __forceinline__ Site gather_pixel(const Gather& g, const Phase& phase,
                                             const Pixel& pixel) {
  const int32_t h = pixel.row * g.axis_h.source_step + phase.h.origin;
  const int32_t w = pixel.column * g.axis_w.source_step + phase.w.origin;
  return {pixel.image * g.source.n + h * g.source.h + w * g.source.w, h, w};
}

// Where that pixel's result goes, in elements, for channel 0.
__device__ __forceinline__ int64_t destination_pixel(const Gather& g, const Phase& phase,
                                                     const Pixel& pixel) {
  const int64_t h = phase.h.first_pixel + pixel.row * g.axis_h.pixel_step;
  const int64_t w = phase.w.first_pixel + pixel.column * g.axis_w.pixel_step;
  return pixel.image * g.destination.n + h * g.destination.h + w * g.destination.w;
}

// Element `index` of the reduction: a channel, and a tap (y, x) of the phase.
struct ReductionIndex {
  int32_t channel, y, x;

  __device__ __forceinline__ ReductionIndex(const Gather& g, const Phase& phase, int32_t index) {
    const FastDiv& inner = g.channels_last ? g.channel_count : phase.taps;
    const int32_t outer_index = inner.quotient(index);
    const int32_t inner_index = index - outer_index * inner.divisor;
    channel = g.channels_last ? inner_index : outer_index;
    const int32_t tap = g.channels_last ? outer_index : inner_index;
    y = phase.taps_w.quotient(tap);
    x = tap - y * phase.taps_w.divisor;
  }
};

__device__ __forceinline__ Site gather_tap(const Gather& g, const Phase& phase, int32_t index) {
  if (index >= phase.reduction) return outside();
  const ReductionIndex at(g, phase, index);
  const int32_t h = phase.h.first_shift + at.y * g.axis_h.shift_step;
  const int32_t w = phase.w.first_shift + at.x * g.axis_w.shift_step;
  return {at.channel * g.source.c + h * g.source.h + w * g.source.w, h, w};
}

// wgrad's reduced pixel, as it meets the input before any tap's shift.
__device__ __forceinline__ Site wgrad_input_pixel(const Wgrad& g, const Pixel& pixel) {
  const int32_t h = pixel.row * g.stride_h - g.pad_top;
  const int32_t w = pixel.column * g.stride_w - g.pad_left;
  return {pixel.image * g.input.n + h * g.input.h + w * g.input.w, h, w};
}

// The same pixel in the output gradient: always inside.
__device__ __forceinline__ Site wgrad_output_pixel(const Wgrad& g, const Pixel& pixel) {
  return {pixel.image * g.output.n + pixel.row * g.output.h + pixel.column * g.output.w, 0, 0};
}

// A column of the filter gradient: (channel, r, s).
struct FilterColumn {
  int32_t channel, r, s;

  __device__ __forceinline__ FilterColumn(const Wgrad& g, int32_t column) {
    const FastDiv& inner = g.channels_last ? g.channel_count : g.taps;
    const int32_t outer_index = inner.quotient(column);
    const int32_t inner_index = column - outer_index * inner.divisor;
    channel = g.channels_last ? inner_index : outer_index;
    const int32_t tap = g.channels_last ? outer_index : inner_index;
    r = g.taps_w_div.quotient(tap);
    s = tap - r * g.taps_w;
  }
};

__device__ __forceinline__ Site wgrad_column(const Wgrad& g, int32_t column) {
  if (column >= g.columns) return outside();
  if (g.has_bias_column && column == g.columns - 1) return {0, kOne, kOne};
  const FilterColumn at(g, column);
  const int32_t h = at.r * g.dilation_h;
  const int32_t w = at.s * g.dilation_w;
  return {at.channel * g.input.c + h * g.input.h + w * g.input.w, h, w};
}

// A row of wgrad: an output channel of the group.
__device__ __forceinline__ Site wgrad_row(const Wgrad& g, int32_t row) {
  if (row >= g.rows) return outside();
  return {row * g.output.c, 0, 0};
}

}  // namespace haloconv
