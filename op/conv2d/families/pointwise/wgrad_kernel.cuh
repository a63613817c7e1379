// The gradient of filters of one tap on Hopper: wgrad_arguments.h. A block computes a tile over
// some of the pixels, as kernel.cuh does over channels.
//
// float32, in TF32, is rounded in shared memory while the chunk before is multiplied. The tensor
// core's sums, which truncate, are added up elsewhere every few chunks.
#pragma once

#include <cuda/ptx>

#include <type_traits>

#include "conv2d/families/pointwise/operand.cuh"
#include "conv2d/families/pointwise/rounded_rows.cuh"
#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::pointwise {

inline constexpr int32_t kChunksOfSums = 32;  // of float32, that the tensor core adds up

template <class T, int kRows, int kColumns, bool kBias>
__global__ void __launch_bounds__(kThreads,
                                  blocks_of(Tile{kRows, kColumns}, std::is_same_v<T, float>))
    pointwise_wgrad_kernel(const __grid_constant__ WgradArguments args) {
  constexpr Tile kTile = {kRows, kColumns};
  constexpr bool kRounds = std::is_same_v<T, float>;
  constexpr int kStages = stages_of(kTile, kRounds);
  // Two warpgroups share the tile's rows, or its columns.
  constexpr int kWidth = kRows == 128 ? kColumns : kColumns / 2;
  constexpr int kRowBytes = kRows * kDepth * 2;  // grad_output's part of a chunk

  extern __shared__ unsigned char shared_base[];
  const uint32_t shared = (shared_address(shared_base) + 1023) / 1024 * 1024;
  // Sums of the rows of grad_output are its product with a column of ones, of which the matrix
  // instruction wants eight.
  const uint32_t ones = shared + kStages * chunk_bytes(kTile);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t rows_above = block / args.column_tiles;  // (split, group, row tile)
  const int32_t column_tile = block % args.column_tiles;
  const int32_t groups_above = rows_above / args.row_tiles;
  const int32_t row_tile = rows_above % args.row_tiles;
  const int32_t group = groups_above % args.groups, split = groups_above / args.groups;
  const int32_t first_row = row_tile * kRows, first_column = column_tile * kColumns;

  // The bias's gradient is of values that are not rounded.
  constexpr bool kOnes = kBias && !kRounds;
  if constexpr (kOnes) {
    store_shared_bits(ones + thread * 4, Element<T>::pair(1, 1));
  }
  const Place<kDepth> place(thread, args.pixel_unit);
  const auto* const grad_output =
      static_cast<const uint16_t*>(args.grad_output) +
      (int64_t{group} * args.rows + first_row + place.row) * args.output_k;
  const auto* const input =
      static_cast<const uint16_t*>(args.input) +
      (int64_t{group} * args.columns + first_column + place.row) * args.input_c;
  const int32_t first_chunk = split * args.split_chunks;
  int32_t chunks = min(args.split_chunks, args.chunks - first_chunk);

  using Chunks = Ring<kStages, chunk_bytes(kTile)>;
  Chunks loaded(shared);
  int32_t to_load = chunks, first_pixel = first_chunk * kDepth + place.column;
  const auto load = [&] {
    const uint32_t stage = loaded.next();
    const Pixel pixel(args.pixels, args.image_pixels, first_pixel);
    with_unit(args.pixel_unit, [&]<int kUnit>() {
      copy_rows<kRows, kDepth, kUnit, values_of(kTile)>(
          stage, place, grad_output + pixel.image * args.output_n + pixel.in_image, args.output_k,
          args.rows - first_row, pixel.exists);
      copy_rows<kColumns, kDepth, kUnit, values_of(kTile)>(
          stage + kRowBytes, place, input + pixel.image * args.input_n + pixel.in_image,
          args.input_c, args.columns - first_column, pixel.exists);
    });
    first_pixel += kDepth;
    --to_load;
  };

#pragma unroll 1
  for (int32_t i = 0; i < kStages - 1; ++i) {
    if (to_load > 0) load();
    commit_copies();
  }
  const int32_t group_of_warps = warpgroup_of(thread);
  const int32_t rows_at = kRows == 128 ? group_of_warps * 64 * 128 : 0;
  const int32_t columns_at = kRowBytes + (kRows == 128 ? 0 : group_of_warps * kWidth * 128);
  float sums[kWidth / 2] = {}, row_sums[4] = {};
  float totals[kRounds ? kWidth / 2 : 1] = {}, copied_sums[kMostPasses] = {};
  Chunks computed(shared), rounded(shared);
  const auto round_own = [&] {
    const uint32_t stage = rounded.next();
    with_unit(args.pixel_unit, [&]<int kUnit>() {
      if constexpr (kUnit > 1) {
        constexpr int kAtOnce = is_alone(kTile, true) ? 16 : kBias ? 4 : 8;  // words
        round_rows<kRows, kDepth, kUnit, kBias, kAtOnce>(stage, place, copied_sums);
        round_rows<kColumns, kDepth, kUnit, false, kAtOnce>(stage + kRowBytes, place, copied_sums);
      }
    });
  };
  if constexpr (kRounds) {
    wait_for_groups<kStages - 2>();
    round_own();
  }
  int32_t until_moved = kChunksOfSums;
  do {
    if constexpr (!kRounds) wait_for_groups<kStages - 2>();
    // wgmma reads shared memory past the ordinary path.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();  // the chunk is there, and nobody reads the one before it
    const uint32_t stage = computed.next();
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i) {
      const uint64_t a = operand_at<kRows>(stage + rows_at + i * 32);
      wgmma_shared<T, kWidth, false, false>(sums, a,
                                            operand_at<kColumns>(stage + columns_at + i * 32));
      if constexpr (kOnes) {
        wgmma_shared<T, 8, false, false>(row_sums, a, operand_at<8>(ones + i * 32));
      }
    }
    wgmma_commit();
    if (to_load > 0) load();
    commit_copies();
    if constexpr (kRounds) {
      if (chunks > 1) {
        wait_for_groups<kStages - 2>();
        round_own();
      }
    }
    wgmma_wait<0>();
    if constexpr (kRounds) {
      if (--until_moved == 0) {
        until_moved = kChunksOfSums;
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) {
          wgmma_settle(sums[i]);
          totals[i] += sums[i];
          sums[i] = 0;
        }
      }
    }
  } while (--chunks > 0);

  // A thread's sums: rows of two, eight apart, and in each pairs of neighbours.
  const int32_t row = first_row + (kRows == 128 ? group_of_warps * 64 : 0) +
                      thread % 128 / 32 * 16 + thread % 32 / 4;
  const int32_t column =
      first_column + (kRows == 128 ? 0 : group_of_warps * kWidth) + thread % 4 * 2;
  const int64_t part_row = (int64_t{split} * args.groups + group) * args.padded_rows + row;
  float* const to = args.partial + part_row * args.padded_columns + column;
#pragma unroll
  for (int i = 0; i < kWidth / 2; ++i) {
    wgmma_settle(sums[i]);
    if constexpr (kRounds) sums[i] += totals[i];
  }
#pragma unroll
  for (int i = 0; i < kWidth / 8; ++i) {
    const float* const four = &sums[4 * i];
    *reinterpret_cast<float2*>(to + i * 8) = {four[0], four[1]};
    *reinterpret_cast<float2*>(to + 8 * args.padded_columns + i * 8) = {four[2], four[3]};
  }
  if constexpr (kBias && kRounds) {
    if (column_tile != 0) return;
    float* const bias_to =
        args.bias_partial + (int64_t{split} * args.groups + group) * args.padded_rows + first_row;
    with_unit(args.pixel_unit, [&]<int kUnit>() {
      if constexpr (kUnit > 1 && kPassesOf<kRows, kDepth, kUnit> <= kMostPasses) {
        store_row_sums<kRows, kDepth, kUnit>(
            place, copied_sums, [&](int32_t of_tile, float sum) { bias_to[of_tile] = sum; });
      }
    });
  }
  if constexpr (kOnes) {
    wgmma_settle(row_sums);
    const bool writes =
        column_tile == 0 && thread % 4 == 0 && (kRows == 128 || group_of_warps == 0);
    if (writes) {
      args.bias_partial[part_row] = row_sums[0];
      args.bias_partial[part_row + 8] = row_sums[2];
    }
  }
}

}  // namespace haloconv::pointwise
