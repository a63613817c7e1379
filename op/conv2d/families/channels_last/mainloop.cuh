// The products of a tile, as stages of operands arrive.
#pragma once

#include "conv2d/families/channels_last/scheduler.cuh"
#include "conv2d/families/channels_last/shared_memory.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::channels_last {

// A shared-memory address as a descriptor has it.
__device__ __forceinline__ uint64_t operand_address(uint32_t at) { return at >> 4 & 0x3fff; }

// The descriptor of an operand whose rows of `kRowBytes` (128, 64 or 32) are swizzled over their
// length, 8 of them after another. MN-major operands wider than a row go on `wide_stride` further.
template <int kRowBytes>
__device__ __forceinline__ uint64_t swizzled_operand(uint32_t at, uint32_t wide_stride) {
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  constexpr uint64_t kEightRows = kRowBytes * 8 / 16;
  return operand_address(at) | uint64_t{wide_stride >> 4} << 16 | kEightRows << 32 | kSwizzle << 62;
}

// Blocks of 64 pixels that a warpgroup multiplies.
template <Tile kTile>
inline constexpr int kRowBlocks = kTile.pixels / kMathGroups / 64;

template <Tile kTile>
using Sums = float[kRowBlocks<kTile>][kTile.channels / 2];

// One stage's products, left in flight.
template <class T, Tile kTile, bool kDgrad>
__device__ __forceinline__ void multiply_stage(uint32_t stage, int32_t group, Sums<kTile>& sums) {
  using Shared = SharedMemory<kTile>;
  constexpr int kRowBytes = kTile.depth * 2;
#pragma unroll
  for (int i = 0; i < Shared::kUnits; ++i) {
    const uint32_t source =
        stage + i * Shared::kSourceUnit + group * kRowBlocks<kTile> * (64 * kRowBytes);
    const uint32_t filter = stage + Shared::kFilter + i * Shared::kFilterUnit;
#pragma unroll
    for (int k = 0; k < kTile.depth; k += 16) {
      const uint64_t b = kDgrad ? swizzled_operand<128>(filter + k * 128, kTile.depth * 128)
                                : swizzled_operand<kRowBytes>(filter + k * 2, 0);
#pragma unroll
      for (int row = 0; row < kRowBlocks<kTile>; ++row) {
        const uint64_t a = swizzled_operand<kRowBytes>(source + row * 64 * kRowBytes + k * 2, 0);
        wgmma_shared<T, kTile.channels, false, kDgrad>(sums[row], a, b);
      }
    }
  }
}

// Tells the producer that a warp is done with a stage.
__device__ __forceinline__ void release_stage(uint64_t* empty, int32_t lane) {
  if (lane == 0) {
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                               cuda::ptx::space_shared, empty);
  }
}

// A warpgroup's half of a tile over `stages` > 0 stages. The products of a stage are waited for
// when those of the next have been issued.
template <class T, Tile kTile, bool kDgrad>
__device__ __forceinline__ void multiply(const SharedMemory<kTile>& shared, RingPosition& ring,
                                         int32_t stages, int32_t group, int32_t lane,
                                         int32_t stages_of_ring, Sums<kTile>& sums) {
  int32_t last = -1;
  do {
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_stage<T, kTile, kDgrad>(shared.stage(ring.stage), group, sums);
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0) release_stage(&shared.empty[last], lane);
    last = ring.stage;
    ring.advance(stages_of_ring);
  } while (--stages > 0);
  wgmma_wait<0>();
  release_stage(&shared.empty[last], lane);
#pragma unroll
  for (auto& row : sums) {
#pragma unroll
    for (float& sum : row) wgmma_settle(sum);
  }
}

}  // namespace haloconv::sm90::channels_last
