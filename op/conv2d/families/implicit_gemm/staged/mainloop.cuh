// A warp's products from a staged window and from fragments of the filter.
//
// A depth is two units of a tap's pixels and channels. Depths follow each other: all taps of two
// units, all units of a window, all windows. While one is multiplied the operands of the next are
// on their way, the filter's from memory: no thread waits for another until the window is
// multiplied.
#pragma once

#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/mainloop.cuh"
#include "conv2d/families/implicit_gemm/staged/staged_window.h"
#include "conv2d/families/implicit_gemm/windows/loader.cuh"

namespace haloconv::implicit_gemm {

// A warp's fragments of the filter: fragments.h.
template <class T, int kIndex>
class FragmentReader {
  static constexpr Tile kTile = kTiles[kIndex];

 public:
  // At the phase's first depth.
  __device__ __forceinline__ FragmentReader(const Arguments& args, const PatchPosition& at,
                                            int32_t warp, int32_t lane)
      : depth_bytes_(depth_fragments(args, kTile.channels) * kFragmentBytes) {
    const int64_t element = at.group * args.filter_group + args.phases[at.phase].packed_offset;
    const int32_t channel = at.channel + warp % kTile.warps_along_channels() * kTile.warp_channels;
    at_ = static_cast<const char*>(args.filter) + element * static_cast<int64_t>(sizeof(T)) +
          channel / kFragmentChannels * kFragmentBytes + lane * kUnitBytes;
  }

  // Of the warp's channels the fragment of that number.
  __device__ __forceinline__ void load(int number, uint32_t (&words)[4]) const {
    asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(at_ + number * kFragmentBytes));
  }

  // To the next depth.
  __device__ __forceinline__ void advance() { at_ += depth_bytes_; }

 private:
  const char* at_;
  int32_t depth_bytes_;
};

// Where a warp's pixels of a depth lie in a window.
template <int kIndex>
class StagedReader {
  static constexpr Tile kTile = kTiles[kIndex];

 public:
  __device__ __forceinline__ StagedReader(const Arguments& args, const Phase& phase,
                                          uint32_t window, int32_t warp, int32_t lane)
      : taps_w_(phase.w.taps), taps_h_(phase.h.taps) {
    const Windows& windows = args.windows;
    const int32_t row_bytes = windows.pitch.divisor * kUnitBytes;
    const bool is_wide = windows.log_columns == kLogWideColumns;
    block_bytes_ = is_wide ? kPatchColumns * kUnitBytes : row_bytes;
    fourth_bytes_ = is_wide ? row_bytes : 4 * row_bytes;
    tap_bytes_ = args.geometry.axis_w.shift_step * kUnitBytes;
    const int32_t line_bytes = args.geometry.axis_h.shift_step * row_bytes;
    line_bytes_ = line_bytes - (phase.w.taps - 1) * tap_bytes_;
    rewind_bytes_ = -phase.h.taps * line_bytes;
    units_bytes_ = windows.units() > 2 ? staged_place(windows, 0, 2) : 0;
    const int32_t row =
        (warp / kTile.warps_along_channels() * kTile.warp_pixels >> windows.log_columns) +
        taps_before(phase.h.taps, args.geometry.axis_h.shift_step);
    const int32_t pixel = row * windows.pitch.divisor + lane % 16 +
                          taps_before(phase.w.taps, args.geometry.axis_w.shift_step) +
                          window_lead(args, phase);
    first_ = window + staged_place(windows, pixel, lane / 16);
    begin();
  }

  // At a window's first depth.
  __device__ __forceinline__ void begin() {
    at_ = first_;
    next_units_bytes_ = units_bytes_;
    tap_ = line_ = 0;
  }

  // To the next depth, from the last to the first. By selections: a branch would part the products
  // around it.
  __device__ __forceinline__ void advance() {
    ++tap_;
    const bool is_line = tap_ == taps_w_;
    at_ += is_line ? line_bytes_ : tap_bytes_;
    tap_ = is_line ? 0 : tap_;
    line_ += is_line ? 1 : 0;
    const bool is_unit = line_ == taps_h_;
    at_ += is_unit ? rewind_bytes_ + next_units_bytes_ : 0;
    next_units_bytes_ = is_unit ? -next_units_bytes_ : next_units_bytes_;
    line_ = is_unit ? 0 : line_;
  }

  // 16 pixels of the warp's; block by block, from the first on.
  __device__ __forceinline__ void load(int block, uint32_t (&pixels)[4]) const {
    load_matrices(at_ + block / 4 * fourth_bytes_ + block % 4 * block_bytes_, pixels);
  }

 private:
  int32_t block_bytes_, fourth_bytes_;  // to the next block of pixels, and the fourth from it
  // To the next tap of a row, from a row's last to the next row's first, and from behind the last
  // row to the first.
  int32_t tap_bytes_, line_bytes_, rewind_bytes_;
  int32_t units_bytes_, next_units_bytes_;  // from the first two units to the others, or back
  int32_t taps_w_, taps_h_;
  uint32_t first_, at_;
  int32_t tap_, line_;
};

// The products of a warp, depth by depth.
template <class T, int kIndex>
class StagedProducts {
  static constexpr int kPixelBlocks = Sums<kIndex>::kPixelBlocks;
  static constexpr int kFragments = Sums<kIndex>::kChannelBlocks / 2;
  // Steps of two depths in the loop's body. ptxas puts loads that none of the body's own products
  // need behind all of these, so that the next round waits for them. In TF32 a warp of 128 x 32
  // took 0.9 of the time on an H200 with three steps and places that are worked out a depth ahead,
  // and other warps longer than with one step. Before 9.0 three steps spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kSteps = 1;
#else
  static constexpr bool kIsNarrow =
      sizeof(T) == 4 && kTiles[kIndex].warp_pixels == 128 && kTiles[kIndex].warp_channels == 32;
  static constexpr int kSteps = kIsNarrow ? 3 : 1;
#endif
  static constexpr bool kKnowsNextPlace = kSteps > 1;

 public:
  // Brings the first depth's fragments.
  __device__ __forceinline__ StagedProducts(const Arguments& args, const PatchPosition& at,
                                            uint32_t window, int32_t warp, int32_t lane,
                                            Sums<kIndex>& sums)
      : reader_(args, args.phases[at.phase], window, warp, lane),
        filter_(args, at, warp, lane),
        sums_(sums) {
    load_channels<0>();
  }

  // Multiplies all depths of a window.
  __device__ __forceinline__ void multiply_window(int32_t depths) {
    reader_.begin();
    load_pixels<0>();
    if constexpr (kKnowsNextPlace) reader_.advance();
#pragma unroll 1
    for (int32_t step = 0; step < depths / (2 * kSteps); ++step) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) multiply_step();
    }
    if constexpr (kSteps > 1) {
#pragma unroll 1
      for (int32_t step = 0; step < depths / 2 % kSteps; ++step) multiply_step();
    }
    if (depths % 2 != 0) {
      multiply<0>();
      keep_number();
    }
  }

 private:
  __device__ __forceinline__ void multiply_step() {
    multiply<0>();
    multiply<1>();
  }

  // Multiplies the depth whose operands are those of that number, 0 and 1 in turn.
  template <int kDepth>
  __device__ __forceinline__ void multiply() {
    filter_.advance();
    load_channels<1 - kDepth>();
    if constexpr (!kKnowsNextPlace) reader_.advance();
    load_pixels<1 - kDepth>();
    if constexpr (kKnowsNextPlace) reader_.advance();
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) {
      multiply_add<T>(sums_.of[i], pixels_[kDepth][i], channels_[kDepth]);
    }
  }

  // After a window's last depth, if it was of number 0: the next window begins with 0 once more.
  __device__ __forceinline__ void keep_number() {
#pragma unroll
    for (int j = 0; j < kFragments; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) channels_[0][j][k] = channels_[1][j][k];
    }
  }

  template <int kDepth>
  __device__ __forceinline__ void load_channels() {
#pragma unroll
    for (int j = 0; j < kFragments; ++j) filter_.load(j, channels_[kDepth][j]);
  }
  template <int kDepth>
  __device__ __forceinline__ void load_pixels() {
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) reader_.load(i, pixels_[kDepth][i]);
  }

  StagedReader<kIndex> reader_;
  FragmentReader<T, kIndex> filter_;
  Sums<kIndex>& sums_;
  uint32_t pixels_[2][kPixelBlocks][4];
  uint32_t channels_[2][kFragments][4];
};

}  // namespace haloconv::implicit_gemm
