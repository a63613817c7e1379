// Brings both operands to shared memory element by element, by way of registers: channels may lie
// anywhere. Neighbouring threads have neighbouring pixels.
#pragma once

#include "conv2d/device/unit_elements.cuh"
#include "conv2d/families/implicit_gemm_wgrad/loader.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::implicit_gemm_wgrad {

// A thread has some units of one pixel of a step: first of the output gradient's rows, then of the
// input's columns. It loads a part of them while an earlier stage is multiplied, and then stores
// it.
template <class T, int kIndex>
class ElementLoader {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr int kPixels = step_pixels(sizeof(T));
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);
  static constexpr int kRowUnits = kTile.rows / kUnitElements;
  static constexpr int kColumnUnits = kTile.columns / kUnitElements;
  static constexpr int kGroups = kTile.threads() / kPixels;  // of threads, a unit apart
  static constexpr int kRowPitch = kRowUnits * kUnitBytes;
  static constexpr int kColumnPitch = kColumnUnits * kUnitBytes;
  using Bits = ElementBits<T>;

 public:
  static constexpr int kParts = 2;

 private:
  static constexpr int kPartRows = kRowUnits / kGroups / kParts;
  static constexpr int kPartColumns = kColumnUnits / kGroups / kParts;
  static_assert(kPartRows * kGroups * kParts == kRowUnits &&
                kPartColumns * kGroups * kParts == kColumnUnits);

 public:
  // What is on its way.
  struct Part {
    Bits rows[kPartRows][kUnitElements], columns[kPartColumns][kUnitElements];
  };

  __device__ __forceinline__ ElementLoader(const Arguments& args, const TilePosition& at)
      : args_(args),
        at_(at),
        pixel_(static_cast<int32_t>(threadIdx.x) % kPixels),
        group_(static_cast<int32_t>(threadIdx.x) / kPixels) {}

  __device__ __forceinline__ void load(const StepPixel* pixels, int part, Part& to) const {
    const Wgrad& g = args_.geometry;
    const StepPixel pixel = pixels[pixel_];
    const bool exists = pixel.output != StepPixels<T>::kNowhere;
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) {
      const int32_t row = at_.row + unit(part * kPartRows + i) * kUnitElements;
      const T* from = static_cast<const T*>(args_.grad_output) +
                      (pixel.output + (int64_t{at_.group} * g.rows + row) * g.output.c);
      load_elements(from, g.output.c, exists ? g.rows - row : 0, to.rows[i]);
    }
#pragma unroll
    for (int i = 0; i < kPartColumns; ++i) {
      const ColumnUnit column(args_, at_.group,
                              at_.column + unit(part * kPartColumns + i) * kUnitElements);
      const T* from = static_cast<const T*>(args_.input) + (pixel.input + column.shift.offset);
      load_elements(from, g.input.c, column.meets(g, pixel) ? g.channels - column.channel : 0,
                    to.columns[i]);
    }
  }

  __device__ __forceinline__ void store(uint32_t stage, int part, const Part& from) const {
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) {
      store_unit(stage + place_of_unit(pixel_, unit(part * kPartRows + i), kRowPitch, sizeof(T)),
                 from.rows[i]);
    }
    stage += kPixels * kRowPitch;
#pragma unroll
    for (int i = 0; i < kPartColumns; ++i) {
      store_unit(
          stage + place_of_unit(pixel_, unit(part * kPartColumns + i), kColumnPitch, sizeof(T)),
          from.columns[i]);
    }
  }

 private:
  __device__ __forceinline__ int32_t unit(int number) const { return number * kGroups + group_; }

  static __device__ __forceinline__ void store_unit(uint32_t at,
                                                    const Bits (&from)[kUnitElements]) {
    uint32_t words[4];
    pack_elements</*kRounds=*/false>(from, words);
    haloconv::store_unit(at, words);
  }

  const Arguments& args_;
  const TilePosition& at_;
  int32_t pixel_, group_;
};

}  // namespace haloconv::implicit_gemm_wgrad
