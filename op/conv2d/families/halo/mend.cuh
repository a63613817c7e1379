// What a fold does to sums near an infinity or NaN, undone: a row's folded taps are its own and
// others whose weights are zeros, and zero times such a pixel is NaN. Those sums are computed once
// more, from global memory, over the row's own taps.
//
// All channels of a row of the fold have the same zeros. So a warp looks at the first of the 8
// channels that it staged alone, and hardly ever goes on.
#pragma once

#include <cuda/std/limits>

#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"

namespace haloconv::sm90 {

// Lanes share out the 8 channels, as they do a step's weights, and in each the source's channels
// modulo 4 words.
template <class T, int kPixels, bool kFused>
class Mend : Results<T, kPixels> {
  using Base = Results<T, kPixels>;
  using Base::args_;
  using Base::group_;
  using Base::kPitch;
  using Base::lane_;
  using Base::staging_;
  using typename Base::Output;
  static constexpr int kChunk = 2 * Element<T>::kPerCell, kPerWord = Element<T>::kPerWord;

 public:
  __device__ __forceinline__ Mend(const Arguments& args, const SharedMemory& shared, int32_t split)
      : Base(args, shared), split_(split) {}

  // Half 0 or 1 of the warp's channels, as they are staged.
  __device__ __forceinline__ void run(int half, const TilePosition& tile,
                                      const RowTerms<T, kFused>& terms) const {
    __syncwarp();
    if (!has_nan()) return;
    const FoldedRows::Row row = this->first_row(tile, half);
    const Output first = this->first_output(tile);
    const bool has_channel = row.channel + lane_ / 4 < args_.rows;
#pragma unroll 1
    for (int32_t pixel = 0; pixel < kPixels; ++pixel) {
      const uint32_t staged = staging_ + (lane_ / 4 * kPitch + pixel) * 4;
      float value[1];
      load_shared(staged, value);
      const bool wanted = has_channel && isnan(value[0]);
      const int32_t line = args_.columns_div.quotient(pixel);
      const int32_t n = args_.rows_div.quotient(line);
      const int32_t p = line - n * args_.group_rows;
      const int32_t q = pixel - line * args_.group_columns;
      const Output at{first.n + n, first.p + p, first.q + q};
      if (!this->has(tile, row, at) || !any(wanted)) continue;
      value[0] = terms.apply(sum_of(tile, row, half, at, wanted), half);
      if (kFused && args_.fusion.residual != nullptr) {
        const auto* const residual = static_cast<const float*>(args_.fusion.residual);
        const int64_t offset = n * args_.destination_n + lane_ / 4 * args_.destination_c +
                               p * args_.destination_h + q * args_.destination_w;
        value[0] += load_global(this->first_of(residual, tile, row) + offset, wanted);
      }
      __syncwarp();  // all have read what is there
      if (wanted && lane_ % 4 == 0) store_shared(staged, value);
    }
  }

 private:
  // Of the warp's lanes. The compiler sees that all have the same.
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
    float part = wanted ? 0 : cuda::std::numeric_limits<float>::quiet_NaN(), sum = part;
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
            part = add_product(part, low, half == 0 ? weights->x : weights->y, i);
            part = add_product(part, high, half == 0 ? weights->z : weights->w, i);
          }
          sum = part + __shfl_xor_sync(~0u, part, 1);
          sum += __shfl_xor_sync(~0u, sum, 2);
          if (!any(!isnan(sum))) return sum;
        }
      }
    }
    return sum;
  }

  // The lane's of a step; those of the next are 128 further. Mainloop::start_weights() works this
  // out for itself: one function for both changed the registers of kernels that mend nothing.
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

}  // namespace haloconv::sm90
