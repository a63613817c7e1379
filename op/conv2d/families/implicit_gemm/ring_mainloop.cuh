// A warp's products from a staged window of kWideColumns columns and from a ring of the filter.
//
// As those of staged_mainloop.cuh, but that the warps of a block wait for each other once in a
// step, and find in a table where a depth's pixels lie.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/implicit_gemm/filter_ring.cuh"
#include "conv2d/families/implicit_gemm/mainloop.cuh"
#include "conv2d/families/implicit_gemm/staged_window.h"
#include "conv2d/families/implicit_gemm/window_loader.cuh"

namespace haloconv::implicit_gemm {

// Where the pixels of each of a chunk's depths lie, from those of the first on; by all threads of a
// block. A barrier must follow.
template <int kThreads>
__device__ __forceinline__ void fill_places(const Arguments& args, const Phase& phase,
                                            uint32_t places, int32_t depths) {
  const Windows& windows = args.windows;
  const int32_t words = place_words(depths);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < words; i += kThreads) {
    const int32_t depth = i - 1;
    const bool exists = depth >= 0 && depth < depths;
    const int32_t number = exists ? depth : 0;
    const int32_t pair = phase.taps.quotient(number);
    const int32_t tap = number - pair * phase.taps.divisor;
    const int32_t y = phase.taps_w.quotient(tap);
    const int32_t x = tap - y * phase.taps_w.divisor;
    const int32_t pixel = y * args.geometry.axis_h.shift_step * windows.pitch.divisor +
                          x * args.geometry.axis_w.shift_step;
    store_shared_bits(places + i * kWordBytes,
                      static_cast<uint32_t>(staged_place(windows, pixel, 2 * pair)));
  }
}

// Where a warp's pixels of a depth lie in a window.
template <int kIndex>
class PlaceReader {
  static constexpr Tile kTile = kTiles[kIndex];
  static_assert(kTile.warp_pixels == kWideColumns);

 public:
  __device__ __forceinline__ PlaceReader(const Arguments& args, const Phase& phase, uint32_t window,
                                         uint32_t places, int32_t warp, int32_t lane)
      : places_(places + 2 * kWordBytes) {
    const Windows& windows = args.windows;
    const int32_t row = warp / kTile.warps_along_channels() +
                        taps_before(phase.h.taps, args.geometry.axis_h.shift_step);
    const int32_t pixel = row * windows.pitch.divisor + lane % 16 +
                          taps_before(phase.w.taps, args.geometry.axis_w.shift_step) +
                          window_lead(args, phase);
    first_ = window + staged_place(windows, pixel, lane / 16);
  }

  // At a window's first step.
  __device__ __forceinline__ void begin() {
    from_ = places_;
    load_next();
  }

  // The places of this step's second depth and of the next step's first, 0 and 1, are known; those
  // of the step after it are on their way.
  __device__ __forceinline__ void advance() {
    at_[0] = next_[0];
    at_[1] = next_[1];
    load_next();
  }

  // 16 pixels of the warp's, block by block.
  __device__ __forceinline__ void load_first(int block, uint32_t (&pixels)[4]) const {
    load_matrices(first_ + block * kPatchColumns * kUnitBytes, pixels);
  }
  __device__ __forceinline__ void load(int number, int block, uint32_t (&pixels)[4]) const {
    load_matrices(first_ + at_[number] + block * kPatchColumns * kUnitBytes, pixels);
  }

 private:
  __device__ __forceinline__ void load_next() {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(next_[0]), "=r"(next_[1])
                 : "r"(from_)
                 : "memory");
    from_ += 2 * kWordBytes;
  }

  uint32_t places_, first_, from_;
  uint32_t at_[2], next_[2];
};

// The products of a warp, depth by depth.
template <class T, int kIndex>
class RingProducts {
  static constexpr int kPixelBlocks = Sums<kIndex>::kPixelBlocks;
  static constexpr int kChannelBlocks = Sums<kIndex>::kChannelBlocks;
  static constexpr int kFragments = kChannelBlocks / 2;
  static constexpr int kFilterBytes = ring_filter_bytes(kTiles[kIndex]);
  // Steps in the loop's body, at whose end no product is issued for some 30 cycles. On an H200
  // asym_5x9 forward in TF32 took 0.83 of the time with two steps. Before 9.0 two steps spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kSteps = 1;
#else
  static constexpr int kSteps = 2;
#endif

 public:
  // Brings the first step's fragments. A barrier must follow.
  __device__ __forceinline__ RingProducts(const Arguments& args, const PatchPosition& at,
                                          uint32_t window, uint32_t ring, int32_t depths,
                                          int32_t warp, int32_t lane, Sums<kIndex>& sums)
      : reader_(args, args.phases[at.phase], window, ring + kFilterBytes, warp, lane),
        filter_(args, at, ring, depths, lane),
        sums_(sums) {
    filter_.fetch();
    filter_.store();
    filter_.fetch();
  }

  // Multiplies all depths of a window.
  __device__ __forceinline__ void multiply_window(int32_t depths) {
    reader_.begin();
#pragma unroll
    for (int j = 0; j < kFragments; ++j) filter_.load(0, j, channels_[0][j]);
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) reader_.load_first(i, pixels_[0][i]);
    const int32_t steps = depths / kStepDepths;
#pragma unroll 1
    for (int32_t step = 0; step < steps / kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) multiply_step();
    }
#pragma unroll 1
    for (int32_t step = 0; step < steps % kSteps; ++step) multiply_step();
    if (depths % kStepDepths != 0) {
      multiply<0>();
      next_step();
    }
  }

 private:
  __device__ __forceinline__ void multiply_step() {
    reader_.advance();
    load<1>(1);
    multiply<0>();
    next_step();
    load<0>(0);
    multiply<1>();
  }

  // The next step is in the ring when all threads have stored their part of it.
  __device__ __forceinline__ void next_step() {
    filter_.store();
    __syncthreads();
    filter_.fetch();
    filter_.advance();
  }

  // Of that number, 0 and 1 in turn, the operands of a depth of the ring's step.
  template <int kDepth>
  __device__ __forceinline__ void load(int depth_of_step) {
#pragma unroll
    for (int j = 0; j < kFragments; ++j) filter_.load(depth_of_step, j, channels_[kDepth][j]);
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) reader_.load(1 - kDepth, i, pixels_[kDepth][i]);
  }

  template <int kDepth>
  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kChannelBlocks; ++j) {
        const uint32_t (&channels)[4] = channels_[kDepth][j / 2];
        const uint32_t words[2] = {channels[j % 2 * 2], channels[j % 2 * 2 + 1]};
        multiply_add<T>(sums_.of[i][j], pixels_[kDepth][i], words);
      }
    }
  }

  PlaceReader<kIndex> reader_;
  FilterRing<T, kIndex> filter_;
  Sums<kIndex>& sums_;
  uint32_t pixels_[2][kPixelBlocks][4];
  uint32_t channels_[2][kFragments][4];
};

}  // namespace haloconv::implicit_gemm
