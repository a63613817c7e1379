// A warp's products of a row of a strip. The matrix instruction's rows are channels, so that a
// thread's sums are pairs of neighbouring pixels.
#pragma once

#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/staged/staged_window.h"
#include "conv2d/families/implicit_gemm/strips/strips.h"
#include "conv2d/families/implicit_gemm/windows/loader.cuh"
#include "cuda/load_two_matrices.cuh"
#include "cuda/mma.cuh"

namespace haloconv::implicit_gemm {

// Of each 16 channels and 8 pixels four: of channel strip_channel(lane) the pixels 2 * (lane % 4)
// and the next, and the same of the channel eight further.
template <class T>
struct StripSums {
  static constexpr int kChannelBlocks = kStripTile.warp_channels / 16;
  static constexpr int kPixelBlocks = strip_columns(sizeof(T)) / 8;
  float of[kChannelBlocks][kPixelBlocks][4];
};

// Where a lane's pixels of a depth lie in the ring, whose rows are counted in bytes.
template <class T>
class RingReader {
 public:
  __device__ __forceinline__ RingReader(const Arguments& args, const Phase& phase, uint32_t ring,
                                        int32_t lane)
      : taps_w_(phase.w.taps), taps_h_(phase.h.taps) {
    const Windows& windows = args.windows;
    const int32_t row_bytes = windows.pitch.divisor * kUnitBytes;
    const int32_t reach = tap_reach(phase.h.taps, args.geometry.axis_h.shift_step);
    ring_bytes_ = ring_rows(reach) * row_bytes;
    tap_bytes_ = args.geometry.axis_w.shift_step * kUnitBytes;
    // To the next tap's row, always further down: the ring's first follows its last.
    const int32_t step = args.geometry.axis_h.shift_step;
    line_bytes_ = (step < 0 ? ring_rows(reach) + step : step) * row_bytes;
    rewind_bytes_ = -(phase.w.taps - 1) * tap_bytes_;
    units_bytes_ = windows.units() > 2 ? staged_place(windows, 0, 2) : 0;
    const int32_t pixel =
        taps_before(phase.w.taps, args.geometry.axis_w.shift_step) + window_lead(args, phase);
    // Matrices: 8 pixels' first unit and their second, then the next 8 pixels'.
    first_ = ring + staged_place(windows, pixel + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  }

  // At the first depth of a row of results, whose first tap meets the ring's row that begins there.
  __device__ __forceinline__ void begin(int32_t row) {
    first_row_ = row_ = row;
    next_units_bytes_ = units_bytes_;
    tap_ = line_ = 0;
    at_ = first_ + row;
  }

  // To the next depth. By selections: a branch would part the products around it.
  __device__ __forceinline__ void advance() {
    ++tap_;
    const bool is_line = tap_ == taps_w_;
    tap_ = is_line ? 0 : tap_;
    line_ += is_line ? 1 : 0;
    const int32_t next = row_ + line_bytes_;
    const int32_t wrapped = next >= ring_bytes_ ? next - ring_bytes_ : next;
    at_ += is_line ? wrapped - row_ + rewind_bytes_ : tap_bytes_;
    row_ = is_line ? wrapped : row_;
    const bool is_unit = line_ == taps_h_;
    at_ = is_unit ? first_ + first_row_ + next_units_bytes_ : at_;
    row_ = is_unit ? first_row_ : row_;
    line_ = is_unit ? 0 : line_;
  }

  // 16 pixels; block by block, from the first on.
  __device__ __forceinline__ void load(int block, uint32_t (&pixels)[4]) const {
    load_matrices(at_ + block * 16 * kUnitBytes, pixels);
  }
  // The last eight, of float32.
  __device__ __forceinline__ void load_last(uint32_t (&pixels)[2]) const {
    load_matrices(at_ + kWideColumns * kUnitBytes, pixels);
  }

 private:
  // To the next tap of a row; from a row's last tap to its first; to the next tap's row; and from
  // the first two units to the others.
  int32_t tap_bytes_, rewind_bytes_, line_bytes_, ring_bytes_, units_bytes_, next_units_bytes_;
  int32_t taps_w_, taps_h_;
  uint32_t first_, at_;
  int32_t first_row_, row_, tap_, line_;
};

// A warp's fragments of the filter in shared memory.
class StripFilter {
  static constexpr int32_t kDepthBytes = kStripTile.channels / kFragmentChannels * kFragmentBytes;

 public:
  // At the first depth. `filter` has the fragments of all depths of the tile.
  __device__ __forceinline__ StripFilter(uint32_t filter, int32_t warp, int32_t lane)
      : at_(filter + warp * (kStripTile.warp_channels / kFragmentChannels) * kFragmentBytes +
            lane * kUnitBytes) {}

  // Of the warp's channels the fragment of that number.
  __device__ __forceinline__ void load(int number, uint32_t (&words)[4]) const {
    load_shared_bits(at_ + number * kFragmentBytes, words);
  }

  // To the next depth.
  __device__ __forceinline__ void advance() { at_ += kDepthBytes; }

  // Brings all of them, by all of kThreads threads of which this is one.
  static __device__ __forceinline__ void copy(const Arguments& args, uint32_t filter,
                                              const char* packed, int32_t depths, int32_t thread,
                                              int32_t threads) {
    constexpr int32_t kDepthUnits = kDepthBytes / kUnitBytes;
    const int64_t depth_bytes = depth_fragments(args, kStripTile.channels) * kFragmentBytes;
    for (int32_t unit = thread; unit < depths * kDepthUnits; unit += threads) {
      copy_async_bytes<kUnitBytes>(
          filter + unit * kUnitBytes,
          packed + unit / kDepthUnits * depth_bytes + unit % kDepthUnits * kUnitBytes, kUnitBytes);
    }
  }

 private:
  uint32_t at_;
};

template <class T>
class StripProducts {
  static constexpr int kPixelBlocks = StripSums<T>::kPixelBlocks;
  static constexpr int kPairs = kPixelBlocks / 2;
  static constexpr int kChannelBlocks = StripSums<T>::kChannelBlocks;
  static_assert(kPixelBlocks * 8 == kWideColumns + 8 || kPixelBlocks % 2 == 0);

 public:
  __device__ __forceinline__ StripProducts(const Arguments& args, uint32_t filter, uint32_t ring,
                                           int32_t warp, int32_t lane)
      : reader_(args, args.phases[0], ring, lane), first_filter_(filter, warp, lane) {}

  // Brings the operands of a row's first depth.
  __device__ __forceinline__ void begin_row(int32_t row) {
    filter_ = first_filter_;
    load_channels<0>();
    reader_.begin(row);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) reader_.load(i, pixels_[i]);
    if constexpr (kPixelBlocks % 2 != 0) reader_.load_last(last_);
  }

  // Multiplies a depth. Once a block of pixels is multiplied, its registers take the next depth's.
  template <int kDepth>
  __device__ __forceinline__ void multiply(StripSums<T>& sums) {
    filter_.advance();
    load_channels<1 - kDepth>();
    reader_.advance();
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t words[2] = {pixels_[i][2 * half], pixels_[i][2 * half + 1]};
        multiply_block(sums, 2 * i + half, channels_[kDepth], words);
      }
      reader_.load(i, pixels_[i]);
    }
    if constexpr (kPixelBlocks % 2 != 0) {
      multiply_block(sums, kPixelBlocks - 1, channels_[kDepth], last_);
      reader_.load_last(last_);
    }
  }

 private:
  template <int kDepth>
  __device__ __forceinline__ void load_channels() {
#pragma unroll
    for (int j = 0; j < kChannelBlocks; ++j) filter_.load(j, channels_[kDepth][j]);
  }

  static __device__ __forceinline__ void multiply_block(
      StripSums<T>& sums, int block, const uint32_t (&channels)[kChannelBlocks][4],
      const uint32_t (&pixels)[2]) {
#pragma unroll
    for (int j = 0; j < kChannelBlocks; ++j) {
      multiply_add<T>(sums.of[j][block], channels[j], pixels);
    }
  }

  RingReader<T> reader_;
  const StripFilter first_filter_;
  StripFilter filter_ = first_filter_;
  uint32_t pixels_[kPairs][4];
  uint32_t last_[2];
  uint32_t channels_[2][kChannelBlocks][4];
};

}  // namespace haloconv::implicit_gemm
