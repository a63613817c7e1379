// From the sums of a patch to the destination, straight from registers, with what is quick to fuse.
//
// A thread's pixels lie in columns lane / 4 and eight further of each 16.
#pragma once

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/implicit_gemm/mainloop.cuh"
#include "conv2d/families/implicit_gemm/windows/loader.cuh"
#include "cuda/transpose_matrix.cuh"

namespace haloconv::implicit_gemm {

// Factors and offsets of the channels of the warps that lie side by side.
template <int kIndex>
struct Factors {
  static constexpr Tile kTile = kTiles[kIndex];
  sm90::ChannelTable<result_channels(kTile.warp_channels)> of[kTile.warps_along_channels()];
  static_assert(sizeof(of) == factor_bytes(kTile));

  // By all threads; a barrier must follow.
  template <class T>
  __device__ __forceinline__ void fill(const sm90::Results& results, int32_t channel) {
#pragma unroll
    for (int i = 0; i < kTile.warps_along_channels(); ++i) {
      of[i].template fill<T, kTile.threads()>(results, channel + i * kTile.warp_channels,
                                              static_cast<int32_t>(threadIdx.x));
    }
  }
};

// A step's results of 16 pixels of a warp, of which `half` is a thread's second. Channels that the
// tile does not have are computed from zeros, and not written.
template <int kIndex>
__device__ __forceinline__ void apply_factors(const sm90::StepFactors& of_step,
                                              const float (&sums)[Sums<kIndex>::kChannelBlocks * 4],
                                              int first, int half, float (&values)[4][2]) {
  constexpr int kHave = Sums<kIndex>::kChannelBlocks * 4, kStep = sm90::kStepChannels / 2;
  if constexpr (kHave >= kStep) {
    of_step.apply(sums, first, half, values);
  } else {
    float all[kStep] = {};
#pragma unroll
    for (int i = 0; i < kHave; ++i) all[i] = sums[i];
    of_step.apply(all, first, half, values);
  }
}

// Of the block's group.
template <class T>
__device__ __forceinline__ sm90::Results results_of(const Arguments& args, int32_t group) {
  const Gather& g = args.geometry;
  const int64_t channel = int64_t{group} * g.rows;
  const auto from = [&](const void* of) {
    return of == nullptr ? nullptr : static_cast<const T*>(of) + channel;
  };
  sm90::Results results;
  results.to = static_cast<T*>(args.destination) + channel * g.destination.c;
  results.bias = from(args.bias);
  results.fusion = args.fusion;
  results.fusion.scale = from(args.fusion.scale);
  results.fusion.shift = from(args.fusion.shift);
  if (args.fusion.residual != nullptr) {
    results.fusion.residual =
        static_cast<const T*>(args.fusion.residual) + channel * g.destination.c;
  }
  results.channels = g.rows;
  results.quick = args.quick;
  return results;
}

// A warp's share of a patch: its first channel in the group, and its first pixel.
template <int kIndex>
struct WarpPatch {
  static constexpr Tile kTile = kTiles[kIndex];
  int32_t table;  // of Factors
  int32_t channel;
  int32_t rows, columns;          // from the first pixel on to the phase's end
  int64_t pixel;                  // where its result goes, for the group's first channel
  int64_t row_step, column_step;  // to the next row's and the next column's

  __device__ __forceinline__ WarpPatch(const Arguments& args, const PatchPosition& at, int32_t warp)
      : table(warp % kTile.warps_along_channels()),
        channel(at.channel + table * kTile.warp_channels) {
    const Gather& g = args.geometry;
    const Phase& phase = args.phases[at.phase];
    const int32_t row = at.row + (warp / kTile.warps_along_channels() * kTile.warp_pixels >>
                                  args.windows.log_columns);
    rows = phase.h.pixels - row;
    columns = phase.w.pixels - at.column;
    pixel = destination_pixel(g, phase, {at.image, row, at.column});
    row_step = g.axis_h.pixel_step * g.destination.h;
    column_step = g.axis_w.pixel_step * g.destination.w;
  }

  // From that of the warp's channels on.
  __device__ __forceinline__ int32_t channels(const sm90::Results& results, int32_t first) const {
    return min(results.channels - channel, kTile.warp_channels) - first;
  }

  // A thread's pixels of some of the rows, from row `first` on.
  template <int kRows>
  __device__ __forceinline__ sm90::Places<kRows> places(int32_t first, int32_t lane) const {
    sm90::Places<kRows> places;
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) {
      const int32_t row = first + i / 2, column = lane / 4 + i % 2 * 8;
      places.at[i] = pixel + row * row_step + column * column_step;
      places.inside[i] = row < rows && column < columns;
    }
    return places;
  }
};

// Eight channels of a patch row's 16 pixels, a thread's two of its two pixels, where 32 bits hold
// two neighbouring pixels. The quads of two neighbouring channels have both of them in turn, so
// that they write 32 bytes of one. `to` is where the first channel of the row's first pixel goes.
template <class T>
__device__ __forceinline__ void write_pixel_pairs(const float (&left)[2], const float (&right)[2],
                                                  T* to, int64_t channel_step, int32_t channels,
                                                  int32_t columns, int32_t lane) {
  const uint32_t first = transpose_matrix(Element<T>::pair(left[0], left[1]));
  const uint32_t second = transpose_matrix(Element<T>::pair(right[0], right[1]));
  const bool is_odd = (lane & 4) != 0;
  const uint32_t got = __shfl_xor_sync(0xffffffff, is_odd ? first : second, 4);
  const int32_t column = lane % 4 * 2 + (is_odd ? 8 : 0);
  const int32_t channel = lane / 4 & ~1;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t word = (i == 1) == is_odd ? (i == 0 ? first : second) : got;
    T* const at = to + (channel + i) * channel_step + column;
    const bool exists = channel + i < channels;
    store_global_bits(at, word, exists && column + 1 < columns);
    store_global_bits(at, static_cast<uint16_t>(word), exists && column + 1 == columns);
  }
}

// The results of a warp one by one, or of 16-bit types as pairs of neighbours.
template <class T, int kIndex>
__device__ __forceinline__ void write_quick_elements(const Arguments& args, const PatchPosition& at,
                                                     const sm90::Results& results,
                                                     const Factors<kIndex>& factors, int32_t warp,
                                                     int32_t lane, Sums<kIndex>& sums) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr int kBlocks = Sums<kIndex>::kPixelBlocks;
  const WarpPatch<kIndex> patch(args, at, warp);
  const bool is_wide = args.windows.log_columns == kLogWideColumns;
  const int64_t channel_step = args.geometry.destination.c;
  T* const first = static_cast<T*>(results.to) + patch.channel * channel_step + patch.pixel;
#pragma unroll
  for (int group = 0; group < kTile.warp_channels; group += sm90::kStepChannels) {
    const int32_t channels = patch.channels(results, group);
    if (channels <= 0) break;
    const sm90::StepFactors of_step(factors.of[patch.table], group, lane % 4);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      float values[2][4][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        apply_factors<kIndex>(of_step, sums.rows()[i], group, half, values[half]);
      }
      sm90::with_quick_activation<T>(results.quick, [&](auto activate) {
        for (auto& step : values) sm90::activate_step(step, activate);
      });
      const int32_t row = is_wide ? i / 4 : i;
      const int32_t first_column = is_wide ? i % 4 * kPatchColumns : 0;
      if (row >= patch.rows) continue;
      T* const to =
          first + group * channel_step + row * patch.row_step + first_column * patch.column_step;
      const int32_t columns = patch.columns - first_column;
      if (sizeof(T) == 2 && args.has_words) {
        if constexpr (sizeof(T) == 2) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            write_pixel_pairs(values[0][j], values[1][j], to + j * 8 * channel_step, channel_step,
                              channels - j * 8, columns, lane);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const int32_t channel = j * 8 + lane % 4 * 2 + k % 2;
            const int32_t column = lane / 4 + k / 2 * 8;
            Element<T>::store(to + channel * channel_step + column * patch.column_step,
                              {values[k / 2][j][k % 2]}, channel < channels && column < columns);
          }
        }
      }
    }
  }
}

// Of tensors with channels innermost, whatever is fused.
template <class T, int kIndex>
__device__ __forceinline__ void write_patch(const Arguments& args, const PatchPosition& at,
                                            const sm90::Results& results,
                                            const Factors<kIndex>& factors, int32_t warp,
                                            int32_t lane, Sums<kIndex>& sums) {
  constexpr int kRows = 2;  // at a time: with residuals of more there are too few registers
  constexpr int kHalf = kTiles[kIndex].warp_channels / 2;
  const WarpPatch<kIndex> patch(args, at, warp);
  if (results.quick.is_quick) {
#pragma unroll
    for (int i = 0; i < Sums<kIndex>::kPixelBlocks; i += kRows) {
      sm90::write_quick_results<T>(results, results.quick, factors.of[patch.table],
                                   patch.template places<kRows>(i, lane), patch.channel, lane,
                                   reinterpret_cast<float (&)[kRows][kHalf]>(sums.of[i]));
    }
  } else {
    constexpr int kAll = Sums<kIndex>::kPixelBlocks;
    sm90::write_results_in_turns<T>(results, patch.template places<kAll>(0, lane), patch.channel,
                                    lane, sums.rows());
  }
}

}  // namespace haloconv::implicit_gemm
