// A warp's products from a window and from stages of the filter.
//
// A depth is two units of a tap's pixels and channels. Depths follow each other: all units of a
// tap's pixels, all taps of a window, all windows. While one is multiplied the operands of the next
// are loaded: of the pixels each block to the registers of the block that was multiplied last.
#pragma once

#include "conv2d/families/implicit_gemm/mainloop.cuh"

namespace haloconv::implicit_gemm {

// Where a warp's pixels of a depth lie.
template <int kIndex>
class WindowReader {
  static constexpr Tile kTile = kTiles[kIndex];

 public:
  __device__ __forceinline__ WindowReader(const Arguments& args, const Phase& phase,
                                          uint32_t window, int32_t warp, int32_t lane)
      : windows_(args.windows),
        window_(window),
        // From one of two windows to the other.
        windows_sum_(2 * window + (args.windows.count - 1) * args.windows.bytes),
        lane_unit_(lane / 16),
        tap_shift_(args.geometry.axis_w.shift_step),
        line_shift_(args.geometry.axis_h.shift_step * args.windows.pitch.divisor -
                    phase.w.taps * tap_shift_),
        taps_w_(phase.w.taps),
        taps_h_(phase.h.taps),
        block_bytes_(args.windows.place(args.windows.pitch.divisor, 0)) {
    const int32_t row = warp / kTile.warps_along_channels() * kTile.warp_pixels / kPatchColumns +
                        taps_before(phase.h.taps, args.geometry.axis_h.shift_step);
    first_pixel_ = row * args.windows.pitch.divisor + lane % 16 +
                   taps_before(phase.w.taps, args.geometry.axis_w.shift_step) +
                   window_lead(args, phase);
    aim();
  }

  // To the next depth. By selections: a branch would part the products around it.
  __device__ __forceinline__ void advance() {
    unit_ ^= windows_.units() & 2 ? 0 : 2;
    const bool is_tap = unit_ == 0;
    shift_ += is_tap ? tap_shift_ : 0;
    tap_ += is_tap ? 1 : 0;
    const bool is_line = tap_ == taps_w_;
    shift_ += is_line ? line_shift_ : 0;
    tap_ = is_line ? 0 : tap_;
    line_ += is_line ? 1 : 0;
    const bool is_window = line_ == taps_h_;
    shift_ = is_window ? 0 : shift_;
    line_ = is_window ? 0 : line_;
    window_ = is_window ? windows_sum_ - window_ : window_;
    aim();
  }

  // 16 pixels of the warp's; block by block, from the first on.
  __device__ __forceinline__ void load(int block, uint32_t (&pixels)[4]) const {
    load_matrices(at_ + block * block_bytes_, pixels);
  }

 private:
  __device__ __forceinline__ void aim() {
    at_ = window_ + windows_.place(first_pixel_ + shift_, unit_ + lane_unit_);
  }

  const Windows& windows_;
  uint32_t window_, windows_sum_;
  int32_t lane_unit_, tap_shift_, line_shift_, taps_w_, taps_h_, first_pixel_;
  int32_t block_bytes_;  // to the next block of pixels, a row of the patch
  int32_t shift_ = 0, unit_ = 0, tap_ = 0, line_ = 0;
  uint32_t at_;
};

// A warp's channels of the filter: 16 for each load.
template <int kIndex>
class FilterReader {
  static constexpr Tile kTile = kTiles[kIndex];

 public:
  static constexpr int kLoads = Sums<kIndex>::kChannelBlocks / 2;

  __device__ __forceinline__ FilterReader(int32_t warp, int32_t lane)
      : channels_(place_of_unit(
            warp % kTile.warps_along_channels() * kTile.warp_channels + lane / 16 * 8 + lane % 8,
            lane / 8 % 2)) {}

  __device__ __forceinline__ void load(uint32_t stage, int depth, int number,
                                       uint32_t (&channels)[4]) const {
    load_matrices(stage + (channels_ ^ depth * 2 * kUnitBytes) + number * 16 * kRowBytes, channels);
  }

 private:
  uint32_t channels_;  // this lane's row, in a stage
};

// The products of a warp, depth by depth. Its operands of the next depth are in registers.
template <class T, int kIndex>
class WindowProducts {
  static constexpr int kLoads = FilterReader<kIndex>::kLoads;

 public:
  static constexpr int kPixelBlocks = Sums<kIndex>::kPixelBlocks;

  __device__ __forceinline__ WindowProducts(const Arguments& args, const Phase& phase,
                                            uint32_t window, int32_t warp, int32_t lane,
                                            Sums<kIndex>& sums)
      : reader_(args, phase, window, warp, lane), filter_reader_(warp, lane), sums_(sums) {}

  // The operands of a depth that begins with a stage.
  __device__ __forceinline__ void load(uint32_t stage) {
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) reader_.load(i, pixels_[i]);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) filter_reader_.load(stage, 0, j, channels_[0][j]);
  }

  // Multiplies a stage's depth of that number, while the operands of the next come from the
  // filter's stage that has them. After each block of pixels between(number of the block) is done.
  template <int kDepth, class Between>
  __device__ __forceinline__ void multiply(uint32_t next_stage, Between between) {
    constexpr int kNext = 1 - kDepth;
    reader_.advance();
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) {
#pragma unroll
      for (int j = 2 * i; j < 2 * i + 2 && j < kLoads; ++j) {
        filter_reader_.load(next_stage, kNext, j, channels_[kNext][j]);
      }
      multiply_block(i, channels_[kDepth]);
      reader_.load(i, pixels_[i]);
      between(i);
    }
  }

  // A stage's first depth, and loads nothing.
  __device__ __forceinline__ void multiply_last() {
    reader_.advance();
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) multiply_block(i, channels_[0]);
  }

 private:
  // The filter is rounded when it is packed, the source here.
  __device__ __forceinline__ void multiply_block(int i, const uint32_t (&channels)[kLoads][4]) {
    round_operand<T>(pixels_[i]);
    multiply_add<T>(sums_.of[i], pixels_[i], channels);
  }

  WindowReader<kIndex> reader_;
  const FilterReader<kIndex> filter_reader_;
  Sums<kIndex>& sums_;
  uint32_t pixels_[kPixelBlocks][4];
  uint32_t channels_[2][kLoads][4];
};

}  // namespace haloconv::implicit_gemm
