// Where rows of grad_output end amid eight pixels, zeros stand for those that it has not. The input
// may have the pixels that they are multiplied by, and where one of these is infinite or NaN, its
// product with zero is NaN.
//
// So the math warps look at these pixels of a stage before they multiply it. Not all being finite,
// they are cleared if the tile has one column of taps. Where another column of taps needs them, the
// steps of 16 pixels that have such ones are multiplied by the warp's matrix instruction instead
// (row_end_products.cuh).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cuda/ptx>
#include <type_traits>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"
#include "cuda/group_barrier.cuh"
#include "cuda/named_barrier.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// By all math threads, of stages that end a row of patches. A thread looks at the same 16 bytes of
// some of the pixels that zeros meet and the input has, which are numbered row by row in each box.
template <class T, class Args, Tile kTile>
class RowEnds {
 public:
  // Of a tile whose first tap is in the filter's column `s`.
  __device__ __forceinline__ RowEnds(const Args& args, const Shared<kTile>& shared, int32_t s)
      : args_(args), spoiled_(shared.spoiled), columns_(0), reciprocal_(0) {
    const RowEndPlaces& places = args.row_ends;
    if (places.first == 0) return;
    const int32_t w = (args.strips.divisor - 1) * args.columns * args.stride_w +
                      s * args.dilation_w - args.pad_left;
    const int32_t columns = (args.w - w + args.stride_w - 1) / args.stride_w;  // of the input's
    columns_ = min(columns, places.end) - places.first;
    if (columns_ > 0) reciprocal_ = ((1 << kFractionBits) + columns_ - 1) / columns_;
  }

  // Whether zeros meet pixels that the input has, in a stage that ends a row of patches.
  __device__ __forceinline__ bool meet_pixels() const { return columns_ > 0; }

  // Whether one of these is not finite. `boxes`: where the input's boxes are.
  __device__ __forceinline__ bool meet_nonfinite(uint32_t boxes) const {
    const int32_t pixels = this->pixels();
    uint32_t found = 0;
    int32_t box = 0;
    if (pixels <= kPixelsAtOnce) {
#pragma unroll 1
      do {
        found |= nan_of<1>(boxes, 0, pixels);
        boxes += args_.input_bytes;
      } while (++box < args_.input_boxes);
    } else {
      constexpr int kTogether = 4;  // loads that are on their way
#pragma unroll 1
      do {
        int32_t pixel = 0;
#pragma unroll 1
        do {
          found |= nan_of<kTogether>(boxes, pixel, pixels);
          pixel += kTogether * kPixelsAtOnce;
        } while (pixel < pixels);
        boxes += args_.input_bytes;
      } while (++box < args_.input_boxes);
    }
    const bool any = group_barrier_any<kTile.math_threads()>(kRowEndsBarrier, found != 0);
    // The vote tells the compiler that a warp's threads go the same way.
    return __any_sync(~0u, any);
  }

  // Makes zeros of these pixels, which no tap of a tile needs that has one column of them.
  __device__ __forceinline__ void clear(uint32_t boxes) const {
#pragma unroll 1
    for (int32_t box = 0; box < args_.input_boxes; ++box, boxes += args_.input_bytes) {
#pragma unroll 1
      for (int32_t i = 0; pixel_of(i) < pixels(); i += kPixelsAtOnce) {
        store_unit(place_of(boxes, i), {});
      }
    }
    // The matrix instructions read what ordinary stores wrote.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    wait();
  }

  // The steps that do so.
  __device__ __forceinline__ SpoiledSteps spoiled_steps(uint32_t boxes,
                                                        const PatchExtent& extent) const {
    SpoiledSteps seen = 0;
#pragma unroll 1
    for (int32_t box = 0; box < args_.input_boxes; ++box, boxes += args_.input_bytes) {
#pragma unroll 1
      for (int32_t i = 0; i < pixels(); i += kPixelsAtOnce) {
        if (nan_of<1>(boxes, i, pixels()) != 0) seen |= steps_that_meet(row_of(i), extent);
      }
    }
    if (seen != 0) atomicOr(spoiled_, seen);
    wait();
    seen = __reduce_or_sync(~0u, *static_cast<volatile SpoiledSteps*>(spoiled_));
    wait();
    // Others add to it after the next barrier only.
    if (threadIdx.x == 0) *spoiled_ = 0;
    return seen;
  }

 private:
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  static constexpr int32_t kPixelBytes = 2 * kTile.width;
  static constexpr int32_t kUnits = kPixelBytes / 16;
  static constexpr int32_t kPixelsAtOnce = kTile.math_threads() / kUnits;
  static constexpr int32_t kFractionBits = 20;

  // Of a box.
  __device__ __forceinline__ int32_t pixels() const { return columns_ * args_.row_ends.box_rows; }

  // Of the thread's pixel of those from `first` on: its number, and its row.
  __device__ __forceinline__ int32_t pixel_of(int32_t first) const {
    return first + static_cast<int32_t>(threadIdx.x) / kUnits;
  }
  __device__ __forceinline__ int32_t row_of(int32_t first) const {
    return pixel_of(first) * reciprocal_ >> kFractionBits;
  }

  // Where the thread's bytes of it are in a box.
  __device__ __forceinline__ uint32_t place_of(uint32_t box, int32_t first) const {
    const RowEndPlaces& places = args_.row_ends;
    return box + places.first * kPixelBytes + threadIdx.x % kUnits * 16 +
           (pixel_of(first) + row_of(first) * (places.box_w - columns_)) * kPixelBytes;
  }

  // Bits of a NaN if any value of kTogether of the thread's pixels of a box is not finite, else 0.
  template <int kTogether>
  __device__ __forceinline__ uint32_t nan_of(uint32_t box, int32_t first, int32_t pixels) const {
    uint32_t words[kTogether][4] = {};
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int32_t from = first + i * kPixelsAtOnce;
      load_shared_bits_if(pixel_of(from) < pixels, place_of(box, from), words[i]);
    }
    uint32_t nan = 0;
#pragma unroll
    for (const auto& unit : words) nan |= nan_of(unit);
    return nan;
  }

  // The steps whose taps meet a row of the box.
  __device__ __forceinline__ SpoiledSteps steps_that_meet(int32_t row,
                                                          const PatchExtent& extent) const {
    SpoiledSteps steps = 0;
#pragma unroll 1
    for (int32_t tap = 0; tap < args_.row_ends.tap_rows; ++tap) {
      const int32_t of_patch = row - tap * args_.row_ends.tap_shift;
      if (of_patch < 0 || of_patch >= (Args::kOutputRows ? extent.rows : extent.groups)) continue;
      steps |= 1U << (Args::kOutputRows ? of_patch : of_patch / 2);
    }
    return steps;
  }

  // A product with zero is NaN if a value is not finite.
  static __device__ __forceinline__ uint32_t nan_of(const uint32_t (&words)[4]) {
    const Pair* const pairs = reinterpret_cast<const Pair*>(words);
    const Pair first = __hfma2(pairs[0], Pair{}, __hmul2(pairs[1], Pair{}));
    const Pair second = __hfma2(pairs[2], Pair{}, __hmul2(pairs[3], Pair{}));
    return (reinterpret_cast<const uint32_t&>(first) | reinterpret_cast<const uint32_t&>(second)) &
           0x7fff7fff;
  }

  static __device__ __forceinline__ void wait() {
    named_barrier_sync<kRowEndsBarrier, kTile.math_threads()>();
  }

  const Args& args_;
  SpoiledSteps* const spoiled_;
  int32_t columns_;     // that zeros meet and the input has
  int32_t reciprocal_;  // of columns_, as a fraction, rounded up
};

}  // namespace haloconv::sm90::channels_last_wgrad
