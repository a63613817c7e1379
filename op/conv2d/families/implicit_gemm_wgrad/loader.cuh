// Brings stages of both operands to shared memory by asynchronous copies.
#pragma once

#include "conv2d/device/site.cuh"
#include "conv2d/families/implicit_gemm_wgrad/arguments.h"
#include "cuda/copy_async.cuh"
#include "cuda/copy_cached.cuh"

namespace haloconv::implicit_gemm_wgrad {

// A block's place: which rows and columns of which group, and which pixels.
struct TilePosition {
  int32_t row, column, group;  // the first, in the group
  int64_t split, first_pixel;
  int32_t pixels;

  // Rows change fastest and splits slowest, so that blocks that run together read the same pixels.
  __device__ __forceinline__ TilePosition(const Arguments& args, const Tile& tile) {
    uint32_t rest = blockIdx.x / args.row_tiles;
    row = static_cast<int32_t>(blockIdx.x % args.row_tiles) * tile.rows;
    column = static_cast<int32_t>(rest % args.column_tiles) * tile.columns;
    rest /= args.column_tiles;
    group = static_cast<int32_t>(rest % args.geometry.groups);
    split = rest / args.geometry.groups;
    first_pixel = split * args.split_pixels;
    pixels = static_cast<int32_t>(min(args.split_pixels, args.geometry.pixels - first_pixel));
  }
};

// The pixels of a step, in shared memory for two steps.
template <class T>
class StepPixels {
  static constexpr int kPixels = step_pixels(sizeof(T));
  static_assert(kPixels <= 32);

 public:
  static constexpr int64_t kNowhere = -1;  // StepPixel::output of what is no pixel of the block's

  __device__ __forceinline__ StepPixels(const Arguments& args, const TilePosition& at,
                                        StepPixel* pixels)
      : args_(args),
        at_(at),
        pixels_(pixels),
        range_(at.first_pixel, args.geometry.plane, args.geometry.q) {}

  // By all threads; a barrier must follow before the step is fetched.
  __device__ __forceinline__ void prepare(int32_t step) const {
    if (threadIdx.x >= kPixels) return;
    const Wgrad& g = args_.geometry;
    const int32_t number = step * kPixels + static_cast<int32_t>(threadIdx.x);
    StepPixel pixel{0, kOutside, kOutside, kNowhere, 0};
    if (number < at_.pixels) {
      const Pixel place = range_[number];
      const Site input = wgrad_input_pixel(g, place);
      pixel = {input.offset, input.h, input.w, wgrad_output_pixel(g, place).offset, 0};
    }
    pixels_[step % 2 * kPixels + threadIdx.x] = pixel;
  }

  __device__ __forceinline__ const StepPixel* of(int32_t step) const {
    return pixels_ + step % 2 * kPixels;
  }

 private:
  const Arguments& args_;
  const TilePosition& at_;
  StepPixel* pixels_;
  PixelRange range_;
};

// A unit of columns: its first channel, and how its tap shifts a pixel. Outside where there is
// none.
struct ColumnUnit {
  int32_t channel;
  Site shift;

  __device__ __forceinline__ ColumnUnit(const Arguments& args, int32_t group, int32_t column)
      : channel(0), shift(outside()) {
    if (column >= args.kernel_columns) return;
    const Wgrad& g = args.geometry;
    const int32_t tap = args.tap_columns.quotient(column);
    const int32_t r = g.taps_w_div.quotient(tap);
    channel = column - tap * args.tap_columns.divisor;
    shift.h = r * g.dilation_h;
    shift.w = (tap - r * g.taps_w) * g.dilation_w;
    shift.offset = (int64_t{group} * g.channels + channel) * g.input.c + shift.h * g.input.h +
                   shift.w * g.input.w;
  }

  __device__ __forceinline__ bool meets(const Wgrad& g, const StepPixel& pixel) const {
    return static_cast<uint32_t>(pixel.h + shift.h) < static_cast<uint32_t>(g.h) &&
           static_cast<uint32_t>(pixel.w + shift.w) < static_cast<uint32_t>(g.w);
  }
};

// Access::kUnits: a thread copies the unit of one number of several pixels of each operand, always
// the same output channels, and the same channels of the same tap.
template <class T, int kIndex>
class UnitLoader {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr int kPixels = step_pixels(sizeof(T));
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);
  static constexpr int kRowUnits = kTile.rows / kUnitElements;
  static constexpr int kColumnUnits = kTile.columns / kUnitElements;
  static constexpr int kRowPixelStep = kTile.threads() / kRowUnits;
  static constexpr int kColumnPixelStep = kTile.threads() / kColumnUnits;
  static constexpr int kRowPitch = kRowUnits * kUnitBytes;
  static constexpr int kColumnPitch = kColumnUnits * kUnitBytes;
  static_assert(kPixels % kRowPixelStep == 0 && kPixels % kColumnPixelStep == 0);

 public:
  __device__ __forceinline__ UnitLoader(const Arguments& args, const TilePosition& at)
      : args_(args),
        column_(args, at.group, at.column + column_unit() * kUnitElements),
        input_(static_cast<const T*>(args.input)) {
    const Wgrad& g = args.geometry;
    const int32_t row = at.row + row_unit() * kUnitElements;
    has_row_ = row < g.rows;
    grad_output_ =
        static_cast<const T*>(args.grad_output) + (int64_t{at.group} * g.rows + row) * g.output.c;
  }

  // To where `stage` is in shared memory.
  __device__ __forceinline__ void fetch(const StepPixel* pixels, uint32_t stage) const {
#pragma unroll
    for (int i = 0; i < kPixels / kRowPixelStep; ++i) {
      const int32_t pixel = thread() / kRowUnits + i * kRowPixelStep;
      const int64_t from = pixels[pixel].output;
      const bool inside = has_row_ && from != StepPixels<T>::kNowhere;
      copy_async_bytes<kUnitBytes>(stage + place_of_unit(pixel, row_unit(), kRowPitch, sizeof(T)),
                                   grad_output_ + from, inside ? kUnitBytes : 0);
    }
    stage += kPixels * kRowPitch;
#pragma unroll
    for (int i = 0; i < kPixels / kColumnPixelStep; ++i) {
      const int32_t pixel = thread() / kColumnUnits + i * kColumnPixelStep;
      const StepPixel& from = pixels[pixel];
      copy_async_cached(stage + place_of_unit(pixel, column_unit(), kColumnPitch, sizeof(T)),
                        input_ + (from.input + column_.shift.offset),
                        column_.meets(args_.geometry, from));
    }
  }

 private:
  static __device__ __forceinline__ int32_t thread() { return static_cast<int32_t>(threadIdx.x); }
  static __device__ __forceinline__ int32_t row_unit() { return thread() % kRowUnits; }
  static __device__ __forceinline__ int32_t column_unit() { return thread() % kColumnUnits; }

  const Arguments& args_;
  ColumnUnit column_;
  const T* grad_output_;
  const T* input_;
  bool has_row_;
};

}  // namespace haloconv::implicit_gemm_wgrad
