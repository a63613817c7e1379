// Filters of one tap on 16-bit types on Hopper: arguments.h.
//
// A block stays on its multiprocessor and computes tiles. All its threads bring chunks of both
// operands to shared memory, some ahead of the one that the tensor cores compute with, also the
// next tile's while results are written. What is not hidden so, another block hides.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/pointwise/epilogue.cuh"
#include "conv2d/families/pointwise/loader.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::pointwise {

// kSpreads: spread.h.
template <class T, int kRows, int kColumns, bool kDgrad, bool kSpreads>
__global__ void __launch_bounds__(kThreads, blocks_of(Tile{kRows, kColumns}))
    pointwise_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = {kRows, kColumns};
  constexpr int kStages = stages_of(kTile);
  // Two warpgroups share the tile's rows, or its columns.
  constexpr int kWidth = kRows == 128 ? kColumns : kColumns / 2;
  constexpr int kFilterBytes = kRows * kDepth * 2;  // of a chunk

  extern __shared__ unsigned char shared_base[];
  const uint32_t shared = (shared_address(shared_base) + 1023) / 1024 * 1024;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t group = warpgroup_of(thread);
  const int32_t filter_at = kRows == 128 ? group * 64 * 128 : 0;
  const int32_t pixels_at =
      kFilterBytes +
      (kRows == 128 ? 0 : group * kWidth / 64 * (kDepth * 128) + group * kWidth % 64 * 2);

  Loader<kRows, kColumns, kDgrad> loader(args, shared, thread);
#pragma unroll 1
  for (int32_t i = 0; i < kStages - 1; ++i) {
    loader.load();
    commit_copies();
  }
  Ring<kStages, chunk_bytes(kTile)> stages(shared);
  for (auto tile = static_cast<int32_t>(blockIdx.x); tile < args.tiles;
       tile += static_cast<int32_t>(gridDim.x)) {
    float sums[kWidth / 2] = {};
    int32_t depth = args.depth;
    uint32_t stage;
    do {
      wait_for_groups<kStages - 2>();
      // wgmma reads shared memory past the ordinary path.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      __syncthreads();  // the chunk is there, and nobody reads the one before it
      stage = stages.next();
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kDepth / 16; ++i) {
        const uint64_t a = kDgrad ? operand_at<kDepth>(stage + filter_at + i * 16 * 128)
                                  : operand_at<kRows>(stage + filter_at + i * 32);
        const uint64_t b = operand_at<kDepth>(stage + pixels_at + i * 16 * 128);
        wgmma_shared<T, kWidth, kDgrad, true>(sums, a, b);
      }
      wgmma_commit();
      loader.load();
      commit_copies();
      wgmma_wait<0>();
      depth -= kDepth;
    } while (depth > 0);
    wgmma_settle(sums);
    // Where the last chunk was, results are staged: it is free until the next barrier.
    __syncthreads();
    write_results<T, kRows, kColumns, kSpreads>(
        args, sums, stage, Position(args, Tile{kRows, kColumns}, tile), thread);
  }
}

}  // namespace haloconv::pointwise
