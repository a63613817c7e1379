// Repairs sums of folded rows near an infinity or NaN. A folded row multiplies its own taps by its
// weights and further taps by zeros; zero times an infinity or NaN is NaN, which the definition
// does not have.
//
// A sum may also be NaN because of its own taps. If many pixels are not finite, nearly all sums are
// NaN for that reason, and a look at a few taps shows it. The sums that remain doubtful are put on
// a list, and a kernel of its own computes them once more with all of the GPU's threads
// (repair.cu). If the list is full, the warp computes them itself.
#pragma once

#include <cuda/std/limits>

#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"

namespace haloconv::halo {

// Lanes share out the 8 channels, as they do a step's weights, and in each the source's channels
// modulo 4 words.
template <class T, int kPixels, bool kFused>
class NonfiniteRepair : Results<T, kPixels> {
  using Base = Results<T, kPixels>;
  using Base::args_;
  using Base::group_;
  using Base::kPitch;
  using Base::lane_;
  using Base::staging_;
  using typename Base::Output;
  static constexpr int kChunk = 2 * Element<T>::kPerCell, kPerWord = Element<T>::kPerWord;
  // With two sets of sums, or resident weights, no registers are left to look at several taps.
  static constexpr bool kHasRegisters = Element<T>::kTerms == 1 && resident_steps(kPixels / 2) == 0;

 public:
  __device__ __forceinline__ NonfiniteRepair(const Arguments& args, const SharedMemory& shared,
                                             int32_t split)
      : Base(args, shared), split_(split) {}

  // Half 0 or 1 of the warp's channels, as they are staged.
  __device__ __forceinline__ void run(int half, const TilePosition& tile,
                                      const RowTerms<T, kFused>& terms) const {
    __syncwarp();
    if (!has_nan()) return;
    const FoldedRows::Row row = this->first_row(tile, half);
    const Output first = this->first_output(tile);
    const uint32_t certain = certain_pixels(tile, row, first);
#pragma unroll 1
    for (int32_t first_pixel = 0; first_pixel < kPixels; first_pixel += 32) {
      const bool is_certain = (certain >> first_pixel / 32 & 1) != 0;
      if (!any(!is_certain)) continue;
      const uint32_t channels =
          channels_to_repair(tile, row, half, first, first_pixel + lane_, is_certain);
      uint32_t left = __ballot_sync(~0u, channels != 0);
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int32_t pixel = first_pixel + __ffs(static_cast<int32_t>(left)) - 1;
        const uint32_t staged = staging_ + (lane_ / 4 * kPitch + pixel) * 4;
        float value[1];
        load_shared(staged, value);
        const bool wanted = row.channel + lane_ / 4 < args_.rows && isnan(value[0]);
        const Output in_tile = output_of(pixel);
        const Output at = plus(first, in_tile);
        value[0] = terms.apply(sum_of(tile, row, half, at, wanted), half);
        if (kFused && args_.fusion.residual != nullptr) {
          const auto* const residual = static_cast<const float*>(args_.fusion.residual);
          const int64_t offset = in_tile.n * args_.destination_n + lane_ / 4 * args_.destination_c +
                                 in_tile.p * args_.destination_h + in_tile.q * args_.destination_w;
          value[0] += load_global(this->first_of(residual, tile, row) + offset, wanted);
        }
        __syncwarp();  // all have read what is there
        if (wanted && lane_ % 4 == 0) store_shared(staged, value);
      }
    }
  }

 private:
  // Whether it is so for any lane of the warp. The compiler sees that the answer is uniform.
  static __device__ __forceinline__ bool any(bool is_so) {
    return __reduce_or_sync(~0u, static_cast<unsigned>(is_so)) != 0;
  }

  __device__ __forceinline__ bool has_nan() const {
    using Pixels = typename Base::template LanePixels<4>;
    bool found = false;
#pragma unroll
    for (int i = 0; i < Pixels::kTotal; ++i) {
      float values[4];
      load_shared(staging_ + Pixels::staged((i * 32 + lane_) * 4), values);
#pragma unroll
      for (const float value : values) found = found || isnan(value);
    }
    return any(found);
  }

  // The output that is `pixel` after the warpgroup's first one of the tile, relative to that one.
  __device__ __forceinline__ Output output_of(int32_t pixel) const {
    const int32_t line = args_.columns_div.quotient(pixel);
    const int32_t n = args_.rows_div.quotient(line);
    return {n, line - n * args_.group_rows, pixel - line * args_.group_columns};
  }

  // Which of the lane's pixels, every 32nd of the tile, need no repair: their sums are certainly
  // NaN, or the output does not have them. One bit each.
  __device__ __forceinline__ uint32_t certain_pixels(const TilePosition& tile,
                                                     const FoldedRows::Row& row,
                                                     const Output& first) const {
    constexpr int kTogether = kHasRegisters ? 4 : 1;  // loads
    uint32_t certain = 0;
#pragma unroll kTogether
    for (int32_t i = 0; i < (kPixels + 31) / 32; ++i) {
      const int32_t pixel = i * 32 + lane_;
      const Output at = plus(first, output_of(pixel));
      const bool exists = pixel < kPixels && this->has(tile, row, at);
      const bool is_certain = meets_nan(tile, row, at, exists) | !exists;
      certain |= static_cast<uint32_t>(is_certain) << i;
    }
    return certain;
  }

  static __device__ __forceinline__ Output plus(const Output& first, const Output& in_tile) {
    return {first.n + in_tile.n, first.p + in_tile.p, first.q + in_tile.q};
  }

  // The channels, of 8 and as bits, whose sum at the lane's pixel is NaN for no reason that a look
  // at a few taps finds, and could not be put on the list.
  __device__ __forceinline__ uint32_t channels_to_repair(const TilePosition& tile,
                                                         const FoldedRows::Row& row, int half,
                                                         const Output& first, int32_t pixel,
                                                         bool is_certain) const {
    uint32_t channels = 0;
#pragma unroll 1
    for (int32_t i = 0; i < 8 && !is_certain; ++i) {
      float value[1];
      load_shared(staging_ + (i * kPitch + pixel) * 4, value);
      if (isnan(value[0]) && row.channel + i < args_.rows) channels |= 1u << i;
    }
    if (!any(channels != 0)) return 0;
    const Output at = plus(first, output_of(pixel));
    // A pixel alone, as beside an infinity, is sooner computed than looked at.
    const bool is_alone = __popc(__ballot_sync(~0u, channels != 0)) == 1;
    if (kHasRegisters && !is_alone) channels = without_nan(tile, row, half, at, channels);
    if (channels == 0) return 0;
    const auto entry = atomicAdd(args_.repair_count, 1u);
    if (entry >= kMaxRepairs) return channels;
    const int32_t unit =
        (tile.first_row(args_, group_) + this->warp_ * 16 + half * 8) / kRepairRows;
    args_.repairs[entry] = {tile.image + at.n, at.p, at.q,
                            tile.group * args_.repair_units() + unit};
    return 0;
  }

  // Whether one of the row's own taps meets NaN, in the first channel.
  __device__ __forceinline__ bool meets_nan(const TilePosition& tile, const FoldedRows::Row& row,
                                            const Output& at, bool exists) const {
    const int32_t tap_h = inner_tap(args_.h, args_.own_taps_h(row), at.p);
    const int32_t tap_w = inner_tap(args_.w, args_.own_taps_w(row), at.q);
    return isnan(pixel_at(tile, at, tap_h, tap_w, 0, exists));
  }

  // Of an axis' own taps the one nearest to the middle that meets the source, if any does.
  static __device__ __forceinline__ int32_t inner_tap(const WindowAxis& axis, const OwnTaps& own,
                                                      int32_t output) {
    int32_t tap = own.first + own.count / 2, at = axis.met_by(output, tap);
    const bool forwards = (at < 0) == (axis.shift_step > 0);
    const int32_t step = forwards ? 1 : -1, end = forwards ? own.first + own.count : own.first - 1;
    while ((at < 0 || at >= axis.source_size) && tap + step != end) {
      tap += step;
      at += step * axis.shift_step;
    }
    return tap;
  }

  // What a tap meets of a channel of the split's; 0 outside the source, or unless `wanted`.
  __device__ __forceinline__ float pixel_at(const TilePosition& tile, const Output& at,
                                            int32_t tap_h, int32_t tap_w, int32_t channel,
                                            bool wanted) const {
    const int32_t y = args_.h.met_by(at.p, tap_h), x = args_.w.met_by(at.q, tap_w);
    const bool inside = y >= 0 && y < args_.h.source_size && x >= 0 && x < args_.w.source_size;
    channel += split_ * args_.split_chunks * kChunk;
    const T* const pixel = static_cast<const T*>(args_.source) +
                           (tile.image + at.n) * args_.source_n +
                           (int64_t{tile.group} * args_.channels + channel) * args_.source_c +
                           y * int64_t{args_.source_h} + x;
    return Element<T>::operand(
        Element<T>::load(pixel, wanted && inside && channel < args_.channels));
  }

  // Those of the channels whose sum over a few of their own taps is not NaN. Two taps are looked at
  // side by side, first of all an inner one, which meets the source, and the first one: of pixels
  // at an edge that is on padding, and there an infinite weight is NaN.
  __device__ __forceinline__ uint32_t without_nan(const TilePosition& tile,
                                                  const FoldedRows::Row& row, int half,
                                                  const Output& at, uint32_t channels) const {
    constexpr int kPairs = 4;                         // of taps
    constexpr int kTaps = 2, kTogether = kChunk / 4;  // loads of each tap
    const OwnTaps h = args_.own_taps_h(row), w = args_.own_taps_w(row);
    const uint4* const weights =
        packed_weights(tile, split_ * args_.split_chunks * args_.taps) - lane_;
    float sums[8] = {};
    const int32_t taps = h.count * w.count;
    int32_t tap_h[kTaps] = {inner_tap(args_.h, h, at.p), h.first};
    int32_t tap_w[kTaps] = {inner_tap(args_.w, w, at.q), w.first};
#pragma unroll 1
    for (int32_t pair = 0; pair < kPairs; ++pair) {
#pragma unroll 1
      for (int32_t first = 0; first < kChunk; first += kTogether) {
        float pixels[kTaps][kTogether];
#pragma unroll
        for (int tap = 0; tap < kTaps; ++tap) {
#pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            pixels[tap][i] = pixel_at(tile, at, tap_h[tap], tap_w[tap], first + i, channels != 0);
          }
        }
#pragma unroll
        for (int tap = 0; tap < kTaps; ++tap) {
          const auto* const of_tap = reinterpret_cast<const uint32_t*>(
              weights + (tap_h[tap] * args_.w.taps + tap_w[tap]) * 128);
#pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            const int32_t word = (first + i) / kPerWord;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
              const uint32_t bits = of_tap[(j * 4 + word % 4) * 4 + word / 4 * 2 + half];
              sums[j] = fmaf(pixels[tap][i], Element<T>::value(bits, i % kPerWord), sums[j]);
            }
          }
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          if (isnan(sums[j])) channels &= ~(1u << j);
        }
        if (!any(channels != 0)) return 0;
      }
      // Then the ones after the first. One that is looked at twice makes no NaN.
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const int32_t own = min(pair * kTaps + tap + 1, taps - 1);
        tap_h[tap] = h.first + own / w.count;
        tap_w[tap] = w.first + own % w.count;
      }
    }
    return channels;
  }

  // The sum of the lane's channel over this split's source channels, at an output that all lanes
  // have; of some of them once all that are wanted are NaN.
  __device__ __forceinline__ float sum_of(const TilePosition& tile, const FoldedRows::Row& row,
                                          int half, const Output& output, bool wanted) const {
    const int32_t first_chunk = split_ * args_.split_chunks;
    const uint4* weights = packed_weights(tile, first_chunk * args_.taps);
    int32_t chunks = min(args_.split_chunks, args_.chunks - first_chunk);
    const int32_t first_channel = first_chunk * kChunk + lane_ % 4 * kPerWord;
    const T* source = static_cast<const T*>(args_.source) +
                      (tile.image + output.n) * args_.source_n +
                      (int64_t{tile.group} * args_.channels + first_channel) * args_.source_c;
    int32_t channels = args_.channels - first_channel;  // from the lane's on
    float partial = wanted ? 0 : cuda::std::numeric_limits<float>::quiet_NaN(), sum = partial;
#pragma unroll 1
    for (; chunks > 0; --chunks, channels -= kChunk, source += kChunk * args_.source_c) {
#pragma unroll 1
      for (int32_t tap_h = 0; tap_h < args_.h.taps; ++tap_h) {
#pragma unroll 1
        for (int32_t tap_w = 0; tap_w < args_.w.taps; ++tap_w, weights += 128) {
          if (!args_.has_tap(row, tap_h, tap_w)) continue;
          const int32_t y = args_.h.met_by(output.p, tap_h), x = args_.w.met_by(output.q, tap_w);
          const bool inside =
              y >= 0 && y < args_.h.source_size && x >= 0 && x < args_.w.source_size;
          const T* pixel = source + y * int64_t{args_.source_h} + x;
#pragma unroll
          for (int i = 0; i < kPerWord; ++i, pixel += args_.source_c) {
            const float low = Element<T>::load(pixel, inside && channels > i);
            const float high = Element<T>::load(pixel + 4 * kPerWord * args_.source_c,
                                                inside && channels > 4 * kPerWord + i);
            partial = add_product(partial, low, half == 0 ? weights->x : weights->y, i);
            partial = add_product(partial, high, half == 0 ? weights->z : weights->w, i);
          }
          sum = partial + __shfl_xor_sync(~0u, partial, 1);
          sum += __shfl_xor_sync(~0u, sum, 2);
          if (!any(!isnan(sum))) return sum;
        }
      }
    }
    return sum;
  }

  // The lane's weights of a step; those of the next step are 128 further. Mainloop::start_weights()
  // repeats this computation: sharing one function changed the registers of kernels that repair
  // nothing.
  __device__ __forceinline__ const uint4* packed_weights(const TilePosition& tile,
                                                         int32_t step) const {
    const int32_t row_groups =
        args_.row_tiles * (args_.share == Share::kChannels ? kMathGroups : 1);
    const int32_t row_group =
        tile.group * row_groups + tile.first_row(args_, group_) / kRowsOfGroup;
    return static_cast<const uint4*>(args_.packed) +
           (int64_t{row_group} * args_.packed_steps + step) * 128 + this_thread() % 128;
  }

  static __device__ __forceinline__ float add_product(float sum, float pixel, uint32_t weights,
                                                      int index) {
    return fmaf(Element<T>::operand(pixel), Element<T>::value(weights, index), sum);
  }

  const int32_t split_;
};

}  // namespace haloconv::halo
