// What a thread adds to its sums, the same for all pixels of a row (an output channel): the bias
// and, in the fused kernels, scale and shift.
#pragma once

#include <type_traits>

#include "conv2d/sm90/gather/tile_order.cuh"
#include "conv2d/sm90/vector_access.cuh"

namespace haloconv::sm90 {

// The bias of a thread's rows of the accumulators; 0 in all but one split.
struct Bias {
  float of_half[2];

  __device__ __forceinline__ Bias(const Arguments& args, const TilePosition& tile, int32_t group,
                                  int32_t thread, int32_t split) {
    const int32_t first = tile.first_row(args, group) + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const FoldedRows::Row row = args.folded.at(first + half * 8);
      const bool has = args.bias != nullptr && row.channel < args.rows && split == 0;
      of_half[half] = load_global(args.bias + int64_t{tile.group} * args.rows + row.channel, has);
    }
  }

  __device__ __forceinline__ float apply(float sum, int half) const { return sum + of_half[half]; }
};

// The same where a scale and a shift may follow: (sum + bias) * scale + shift.
struct ScaleAndShift {
  float scale[2], shift[2];

  __device__ __forceinline__ ScaleAndShift(const Arguments& args, const TilePosition& tile,
                                           int32_t group, int32_t thread, int32_t split) {
    const Bias bias(args, tile, group, thread, split);
    const auto* scales = static_cast<const float*>(args.fusion.scale);
    const auto* shifts = static_cast<const float*>(args.fusion.shift);
    const int32_t first = tile.first_row(args, group) + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t channel = args.folded.at(first + half * 8).channel;
      const int64_t at = int64_t{tile.group} * args.rows + channel;
      const bool inside = channel < args.rows;
      scale[half] = scales == nullptr ? 1 : load_global(scales + at, inside);
      shift[half] =
          bias.of_half[half] * scale[half] + load_global(shifts + at, shifts != nullptr && inside);
    }
  }

  __device__ __forceinline__ float apply(float sum, int half) const {
    return sum * scale[half] + shift[half];
  }
};

template <bool kFused>
using RowTerms = std::conditional_t<kFused, ScaleAndShift, Bias>;

}  // namespace haloconv::sm90
