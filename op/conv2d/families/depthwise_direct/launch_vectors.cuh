// Channels innermost that fill whole 16 bytes, of 16-bit types: plan.h. Each file of instances has
// the kernels of one element type.
#pragma once

#include <stdexcept>

#include "conv2d/device/grid.h"
#include "conv2d/families/depthwise_direct/vector_results.cuh"
#include "cuda/check.h"

namespace haloconv::depthwise_direct {

// A thread's tile, and what it starts from.
template <int kRows, int kColumns, int kChannels>
struct VectorThread {
  int32_t first_channel;  // of the block
  int32_t lane, channel, image, p, q;
  bool exists;

  __device__ __forceinline__ explicit VectorThread(const Arguments& d) {
    const auto block = static_cast<int32_t>(blockIdx.x), thread = static_cast<int32_t>(threadIdx.x);
    const int32_t tile_block = d.channel_tiles.quotient(block);
    first_channel = (block - tile_block * d.channel_tiles.divisor) * d.lanes.divisor * kChannels;
    const int32_t of_block = d.lanes.quotient(thread);
    lane = thread - of_block * d.lanes.divisor;
    channel = first_channel + lane * kChannels;
    // Tiles go down the rows of a group, then along columns, then from group to group.
    const int32_t tile = tile_block * d.block_squares + of_block;
    const int32_t column = d.group_rows.quotient(tile);
    const int32_t group = d.column_tiles.quotient(column);
    image = d.row_tiles.quotient(group);
    const int32_t group_of_image = group - image * d.row_tiles.divisor;
    p = (group_of_image * d.group_rows.divisor + tile - column * d.group_rows.divisor) * kRows;
    q = (column - group * d.column_tiles.divisor) * kColumns;
    exists = of_block < d.block_squares && tile < d.tiles && channel < d.channels && p < d.p;
  }
};

template <class T, int kSide, int kStride, bool kSmall, bool kFused>
__global__ void __launch_bounds__(kVectorThreads, vector_tile(kSide, kStride, kSmall).blocks)
    depthwise_vectors(const __grid_constant__ KernelArguments<T> args) {
  constexpr VectorTile kTile = vector_tile(kSide, kStride, kSmall);
  constexpr int kRows = kTile.rows, kColumns = kTile.columns, kChannels = kTile.channels;
  constexpr int kPixels = kRows * kColumns;
  constexpr int kWindowRows = (kRows - 1) * kStride + kSide;
  constexpr int kWindowColumns = (kColumns - 1) * kStride + kSide;
  const Arguments& d = args.shape;
  extern __shared__ __align__(16) float depthwise_vectors_filters[];
  const VectorThread<kRows, kColumns, kChannels> at(d);

  // On its way while the filters come.
  Cell<kChannels> window[kWindowRows][kWindowColumns];
  {
    const int32_t h = at.p * kStride - d.pad_top, w = at.q * kStride - d.pad_left;
    const char* row = reinterpret_cast<const char*>(
        args.source + (at.image * d.source.n + h * d.source.h + w * d.source.w + at.channel));
    const int64_t row_bytes = d.source.h * int64_t{sizeof(T)};
    const int64_t pixel_bytes = d.source.w * int64_t{sizeof(T)};
#pragma unroll
    for (int i = 0; i < kWindowRows; ++i) {
      const bool has_row = at.exists && static_cast<uint32_t>(h + i) < static_cast<uint32_t>(d.h);
      const int32_t columns = has_row ? d.w : 0;
      const char* pixel = row;
#pragma unroll
      for (int j = 0; j < kWindowColumns; ++j) {
        window[i][j] = load_column<kChannels>(pixel, w + j, columns);
        pixel += pixel_bytes;
        asm volatile("" : "+l"(pixel));  // or each address is multiplied from the first
      }
      row += row_bytes;
      asm volatile("" : "+l"(row));
    }
  }
  bring_vector_filters<kSide, kChannels>(args, at.first_channel, depthwise_vectors_filters);
  __syncthreads();
  if (!at.exists) return;

  const int32_t pitch = filter_pitch(d, kChannels);
  float all_sums[kPixels][kChannels];
  // Two channels after the other: a word's values and sums are in registers, not all words'.
#pragma unroll
  for (int k = 0; k < kChannels / 2; ++k) {
    const float* const weights = depthwise_vectors_filters + at.lane * kChannels + 2 * k;
    float2 sums[kPixels] = {};
#pragma unroll
    for (int i = 0; i < kWindowRows; ++i) {
      float2 row[kWindowColumns];
#pragma unroll
      for (int j = 0; j < kWindowColumns; ++j) {
        row[j] = unpack<T>(window[i][j].words[k]);
        asm volatile("" : "+f"(row[j].x), "+f"(row[j].y));  // or it is unpacked for each tap again
      }
#pragma unroll
      for (int y = 0; y < kRows; ++y) {
        const int r = i - y * kStride;
        if (r < 0 || r >= kSide) continue;
#pragma unroll
        for (int s = 0; s < kSide; ++s) {
          const auto weight = *reinterpret_cast<const float2*>(weights + (r * kSide + s) * pitch);
#pragma unroll
          for (int x = 0; x < kColumns; ++x) {
            float2& sum = sums[y * kColumns + x];
            sum.x = fmaf(row[x * kStride + s].x, weight.x, sum.x);
            sum.y = fmaf(row[x * kStride + s].y, weight.y, sum.y);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      all_sums[i][2 * k] = sums[i].x;
      all_sums[i][2 * k + 1] = sums[i].y;
    }
  }

  const int64_t first = at.image * d.result.n + at.p * d.result.h + at.q * d.result.w + at.channel;
  const auto place_of = [&](int i) {
    const int row = i / kColumns, column = i % kColumns;
    return PixelPlace{.exists = at.p + row < d.p && at.q + column < d.q,
                      .at = first + row * d.result.h + column * d.result.w};
  };
  if constexpr (kFused) {
    write_fused(args, at.channel, all_sums, place_of);
  } else {
    const float* const bias =
        depthwise_vectors_filters + kSide * kSide * pitch + at.lane * kChannels;
    write_sums(args, bias, all_sums, place_of);
  }
}

template <class T>
void launch_vectors(const Plan& plan, const KernelArguments<T>& args, cudaStream_t stream) {
  const auto start = [&]<int kSide, int kStride, bool kSmall = false>() {
    const auto kernel = args.fusion.is_none() ? depthwise_vectors<T, kSide, kStride, kSmall, false>
                                              : depthwise_vectors<T, kSide, kStride, kSmall, true>;
    kernel<<<grid_blocks(plan.blocks), plan.threads, plan.shared_bytes(), stream>>>(args);
    check_launch("depthwise_direct vectors");
  };
  switch (plan.side * 10 + plan.stride) {
    case 31:
      return plan.small ? start.template operator()<3, 1, true>()
                        : start.template operator()<3, 1>();
    case 32:
      return start.template operator()<3, 2>();
    case 51:
      return start.template operator()<5, 1>();
    case 52:
      return start.template operator()<5, 2>();
  }
  throw std::logic_error("haloconv: depthwise_direct has no kernel of this filter");
}

}  // namespace haloconv::depthwise_direct
