// fprop and dgrad as a product of matrices: arguments.h.
//
// All of a block's threads copy, multiply and write. While they multiply one stage the copies of
// those after it are on the way.
#pragma once

#include <type_traits>

#include "conv2d/families/implicit_gemm/element_epilogue.cuh"
#include "conv2d/families/implicit_gemm/element_loader.cuh"
#include "conv2d/families/implicit_gemm/mainloop.cuh"
#include "cuda/copy_stages.cuh"

namespace haloconv::implicit_gemm {

template <class T, int kIndex, Access kAccess>
__global__ void __launch_bounds__(kTiles[kIndex].threads(), blocks_of(kTiles[kIndex]))
    implicit_gemm_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr bool kByUnits = kAccess == Access::kUnits;
  constexpr uint32_t kStageBytes = stage_bytes(kTile);
  constexpr int kStepElements = kRowBytes / sizeof(T);
  constexpr int kDepths = kRowUnits / 2;  // products of a stage
  extern __shared__ __align__(128) unsigned char shared[];
  const TilePosition at(args, kTile);
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;

  Sums<kIndex> sums = {};
  const uint32_t first_stage = shared_address(shared);
  const uint32_t end = first_stage + args.stages * kStageBytes;
  const int32_t steps = (args.phases[at.phase].reduction + kStepElements - 1) / kStepElements;
  {
    using Source = std::conditional_t<kByUnits, UnitLoader<T, kIndex>, ElementLoader<T, kIndex>>;
    const Source source(args, at);
    const FilterLoader<T, kIndex> filter(args, at);
    const Multiplier<T, kIndex, kByUnits> multiplier(warp, lane);
    int32_t fetched = 0;
    uint32_t to = first_stage, from = first_stage;
    // One more stage, while multiply(part) does a part of the products of an earlier one.
    const auto fetch_next = [&](auto multiply) {
      const bool exists = fetched < steps;
      if (exists) filter.fetch(fetched, to);
      if constexpr (kByUnits) {
        if (exists) source.fetch(fetched, to);
        commit_copies();  // an empty group too, so that the last stages are waited for alike
        multiply.template operator()<kDepths>(0);
      } else {
        commit_copies();
#pragma unroll
        for (int part = 0; part < Source::kParts; ++part) {
          typename Source::Part on_the_way;
          if (exists) source.load(fetched, part, on_the_way);
          multiply.template operator()<kDepths / Source::kParts>(part);
          if (exists) source.store(to, part, on_the_way);
        }
      }
      ++fetched;
      to = to + kStageBytes == end ? first_stage : to + kStageBytes;
    };
    for (int32_t i = 0; i < args.stages - 1; ++i) fetch_next(NoProducts{});
#pragma unroll 1
    for (int32_t step = 0; step < steps; ++step) {
      wait_for_stage<kLeastStages, kMostStages>(args.stages);
      __syncthreads();  // all threads' copies are there, and nobody reads the stage before
      fetch_next([&]<int kCount>(int part) {
        multiplier.template add<kCount>(from, part * kCount, sums);
      });
      from = from + kStageBytes == end ? first_stage : from + kStageBytes;
    }
  }
  wait_for_copies();
  __syncthreads();  // nobody reads a stage any more
  if constexpr (kByUnits) {
    write_tile<T, kIndex>(args, at, warp, lane, shared, sums);
  } else {
    write_elements<T, kIndex>(args, at, warp, lane, shared, sums);
  }
}

}  // namespace haloconv::implicit_gemm
