// A warp's operands from a window and from a stage of the filter.
#pragma once

#include "conv2d/families/implicit_gemm/mainloop.cuh"

namespace haloconv::implicit_gemm {

// Of one depth: two units of both.
template <int kIndex>
struct Operands {
  uint32_t pixels[Sums<kIndex>::kPixelBlocks][4];
  uint32_t channels[Sums<kIndex>::kChannelBlocks / 2][4];
};

// Follows the depths of a chunk: two units of a tap's pixels after the other, then the next tap's.
template <int kIndex>
class WindowReader {
  static constexpr Tile kTile = kTiles[kIndex];

 public:
  __device__ __forceinline__ WindowReader(const Arguments& args, const Phase& phase, int32_t warp,
                                          int32_t lane)
      : windows_(args.windows),
        lane_unit_(lane / 16),
        taps_w_(phase.w.taps),
        tap_shift_(args.geometry.axis_w.shift_step),
        line_shift_(args.geometry.axis_h.shift_step * args.windows.pitch.divisor -
                    phase.w.taps * tap_shift_),
        row_bytes_(args.windows.place(args.windows.pitch.divisor, 0)) {
    const int32_t row = warp / kTile.warps_along_channels() * (kTile.warp_pixels / kPatchColumns) +
                        taps_before(phase.h.taps, args.geometry.axis_h.shift_step);
    first_pixel_ = row * args.windows.pitch.divisor + lane % 16 +
                   taps_before(phase.w.taps, args.geometry.axis_w.shift_step);
  }

  __device__ __forceinline__ void restart() { shift_ = tap_ = unit_ = 0; }

  __device__ __forceinline__ void advance() {
    unit_ += 2;
    if (unit_ < windows_.units()) return;
    unit_ = 0;
    shift_ += tap_shift_;
    if (++tap_ < taps_w_) return;
    tap_ = 0;
    shift_ += line_shift_;
  }

  __device__ __forceinline__ void load(uint32_t window, Operands<kIndex>& to) const {
    const uint32_t at = window + windows_.place(first_pixel_ + shift_, unit_ + lane_unit_);
#pragma unroll
    for (int i = 0; i < Sums<kIndex>::kPixelBlocks; ++i) {
      load_matrices(at + i * row_bytes_, to.pixels[i]);
    }
  }

 private:
  const Windows& windows_;
  int32_t lane_unit_, taps_w_, tap_shift_, line_shift_, row_bytes_, first_pixel_;
  int32_t shift_ = 0, tap_ = 0, unit_ = 0;
};

template <int kIndex>
class FilterReader {
  static constexpr Tile kTile = kTiles[kIndex];

 public:
  __device__ __forceinline__ FilterReader(int32_t warp, int32_t lane)
      : channels_(place_of_unit(
            warp % kTile.warps_along_channels() * kTile.warp_channels + lane / 16 * 8 + lane % 8,
            lane / 8 % 2)) {}

  __device__ __forceinline__ void load(uint32_t stage, int depth, Operands<kIndex>& to) const {
    const uint32_t at = stage + (channels_ ^ depth * 2 * kUnitBytes);
#pragma unroll
    for (int j = 0; j < Sums<kIndex>::kChannelBlocks / 2; ++j) {
      load_matrices(at + j * 16 * kRowBytes, to.channels[j]);
    }
  }

 private:
  uint32_t channels_;  // this lane's row, in a stage
};

// The filter is rounded when it is packed, the source here unless it was when it was stored.
template <class T, int kIndex, bool kRounds>
__device__ __forceinline__ void multiply(Operands<kIndex>& of, Sums<kIndex>& sums) {
#pragma unroll
  for (int i = 0; i < Sums<kIndex>::kPixelBlocks; ++i) {
    if constexpr (kRounds) round_operand<T>(of.pixels[i]);
#pragma unroll
    for (int j = 0; j < Sums<kIndex>::kChannelBlocks; ++j) {
      const uint32_t words[2] = {of.channels[j / 2][j % 2 * 2], of.channels[j / 2][j % 2 * 2 + 1]};
      multiply_add<T>(sums.of[i][j], of.pixels[i], words);
    }
  }
}

}  // namespace haloconv::implicit_gemm
