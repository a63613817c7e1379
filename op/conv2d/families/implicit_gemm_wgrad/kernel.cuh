// Weight and bias gradients as a product of matrices: arguments.h.
//
// All of a block's threads copy, multiply and write. While they multiply one stage the copies of
// those after it are on the way.
#pragma once

#include <type_traits>

#include "conv2d/families/implicit_gemm_wgrad/element_loader.cuh"
#include "conv2d/families/implicit_gemm_wgrad/mainloop.cuh"
#include "cuda/copy_stages.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::implicit_gemm_wgrad {

// The matrix instruction's sums truncate: after so many pixels they move to the workspace, where
// they are added as float32 is.
inline constexpr int kRoundPixels = 4096;

__device__ __forceinline__ float sum_of_quad(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

// Adds the sums to what the thread left in its own places of the workspace, unless they are the
// `first`, and clears them.
template <class T, int kIndex>
__device__ __forceinline__ void add_to_partial(const Arguments& args, const TilePosition& at,
                                               bool first, bool sums_bias, Sums<kIndex>& sums) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr int kRowBlocks = Sums<kIndex>::kRowBlocks;
  constexpr int kColumnBlocks = Sums<kIndex>::kColumnBlocks;
  const Wgrad& g = args.geometry;
  // Worked out here: kept over the products it would spill.
  const WarpPosition place(kTile, static_cast<int32_t>(this_thread()));
  int32_t row = at.row + place.row + place.lane / 4;
  const int32_t column = at.column + place.column + place.lane % 4 * 2;
  float* line = args.partial + ((at.split * g.groups + at.group) * g.rows + row) * g.columns;
  // A loop, not unrolled: the sums come to the first block of rows.
#pragma unroll 1
  for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float before[kColumnBlocks][2];
      float* at_column[kColumnBlocks];
      int32_t count[kColumnBlocks];  // of the two, how many there are
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j) {
        const int32_t tap = args.tap_columns.quotient(column + j * 8);
        const int32_t channel = column + j * 8 - tap * args.tap_columns.divisor;
        const bool exists = row < g.rows && column + j * 8 < args.kernel_columns;
        count[j] = exists ? g.channels - channel : 0;
        at_column[j] = line + (tap * g.channels + channel);
        before[j][0] = !first && count[j] > 0 ? at_column[j][0] : 0;
        before[j][1] = !first && count[j] > 1 ? at_column[j][1] : 0;
      }
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j) {
        if (count[j] > 0) at_column[j][0] = before[j][0] + sums.of[0][j][half * 2];
        if (count[j] > 1) at_column[j][1] = before[j][1] + sums.of[0][j][half * 2 + 1];
      }
      if (sums_bias) {
        const float sum =
            std::is_same_v<T, float> ? sum_of_quad(sums.bias[0][half]) : sums.bias[0][half];
        float& bias = line[g.columns - 1];
        if (column == 0 && row < g.rows) bias = (first ? 0 : bias) + sum;
      }
      row += 8;
      line += int64_t{8} * g.columns;
    }
#pragma unroll
    for (int i = 0; i + 1 < kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i + 1][j][k];
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) sums.bias[i][half] = sums.bias[i + 1][half];
    }
  }
  sums = {};
}

template <class T, int kIndex, Access kAccess>
__global__ void __launch_bounds__(kTiles[kIndex].threads(), blocks_of(kTiles[kIndex]))
    implicit_gemm_wgrad_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr bool kByUnits = kAccess == Access::kUnits;
  constexpr uint32_t kStageBytes = stage_bytes(kTile);
  constexpr int kPixels = step_pixels(sizeof(T));
  constexpr int kDepths = 2;  // products of a stage
  constexpr int kRoundSteps = kRoundPixels / kPixels;
  extern __shared__ __align__(128) unsigned char shared[];
  const TilePosition at(args, kTile);
  const WarpPosition place(kTile, static_cast<int32_t>(threadIdx.x));
  const bool sums_bias = args.geometry.has_bias_column && at.column + place.column == 0;

  Sums<kIndex> sums = {};
  const uint32_t first_stage = shared_address(shared);
  const uint32_t end = first_stage + args.stages * kStageBytes;
  const int32_t steps = (at.pixels + kPixels - 1) / kPixels;
  using Loader = std::conditional_t<kByUnits, UnitLoader<T, kIndex>, ElementLoader<T, kIndex>>;
  const StepPixels<T> pixels(args, at,
                             reinterpret_cast<StepPixel*>(shared + args.stages * kStageBytes));
  const Loader loader(args, at);
  const Multiplier<T, kIndex> multiplier(place);
  int32_t fetched = 0;
  uint32_t to = first_stage, from = first_stage;
  // One more stage, while multiply(part) does a part of the products of an earlier one. A barrier
  // must follow before the next.
  const auto fetch_next = [&](auto multiply) {
    const bool exists = fetched < steps;
    if constexpr (kByUnits) {
      if (exists) loader.fetch(pixels.of(fetched), to);
      commit_copies();  // an empty group too, so that the last stages are waited for alike
      pixels.prepare(fetched + 1);
      multiply.template operator()<kDepths>(0);
    } else {
      pixels.prepare(fetched + 1);
#pragma unroll
      for (int part = 0; part < Loader::kParts; ++part) {
        typename Loader::Part on_the_way;
        if (exists) loader.load(pixels.of(fetched), part, on_the_way);
        multiply.template operator()<kDepths / Loader::kParts>(part);
        if (exists) loader.store(to, part, on_the_way);
      }
    }
    ++fetched;
    to = to + kStageBytes == end ? first_stage : to + kStageBytes;
  };
  pixels.prepare(0);
  for (int32_t i = 0; i < args.stages - 1; ++i) {
    __syncthreads();
    fetch_next(NoProducts{});
  }
#pragma unroll 1
  for (int32_t step = 0; step < steps; ++step) {
    if constexpr (kByUnits) wait_for_stage<kLeastStages, kMostStages>(args.stages);
    __syncthreads();  // all threads' copies are there, and nobody reads the stage before
    fetch_next([&]<int kCount>(int part) {
      multiplier.template add<kCount>(from, part * kCount, sums_bias, sums);
    });
    from = from + kStageBytes == end ? first_stage : from + kStageBytes;
    if ((step + 1) % kRoundSteps == 0 || step + 1 == steps) {
      add_to_partial<T, kIndex>(args, at, step < kRoundSteps, sums_bias, sums);
    }
  }
  if constexpr (kByUnits) wait_for_copies();
}

}  // namespace haloconv::implicit_gemm_wgrad
