// The gradient of filters, of float32 in TF32 with channels innermost on Hopper: arguments.h.
//
// Math warpgroups multiply (mainloop.cuh), and others bring and transpose (transpose.cuh).
#pragma once

#include <cuda/ptx>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last_tf32_wgrad/mainloop.cuh"
#include "conv2d/families/channels_last_tf32_wgrad/transpose.cuh"
#include "cuda/registers.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

// A tile as a type, which nvcc takes as a kernel's template argument.
template <int32_t... kMembers>
struct TileConstant {
  static constexpr Tile kTile = {kMembers...};
};

template <class TileConstant, Walk kWalk>
__global__ void __launch_bounds__(TileConstant::kTile.threads(), 1)
    channels_last_tf32_wgrad_kernel(const __grid_constant__ CUtensorMap grad_output_map,
                                    const __grid_constant__ CUtensorMap input_map,
                                    const __grid_constant__ Arguments args) {
  constexpr Tile kTile = TileConstant::kTile;
  constexpr RegisterShares kRegisters(kTile);
  extern __shared__ unsigned char shared_base[];
  __shared__ Barriers barriers;
  static_assert(kMostSharedBytes + sizeof(barriers) <= kMaxShared);
  const Shared<kTile> shared(args, shared_base);
  const int32_t split = static_cast<int32_t>(blockIdx.x) / args.tiles;
  const int32_t tile_index = static_cast<int32_t>(blockIdx.x) - split * args.tiles;
  const TilePosition tile(args, kTile, tile_index);
  const int32_t first_patch = args.first_patch(split);
  const int32_t patches = args.first_patch(split + 1) - first_patch;
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&grad_output_map);
    prefetch_map(&input_map);
    for (int i = 0; i < args.stages; ++i) cuda::ptx::mbarrier_init(&barriers.full[i], 1);
    for (int i = 0; i < kTransposed; ++i) {
      cuda::ptx::mbarrier_init(&barriers.transposed[i], kTile.transposing_threads());
      cuda::ptx::mbarrier_init(&barriers.empty[i], kTile.math_threads() / 32);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  if (static_cast<int32_t>(threadIdx.x) >= kTile.math_threads()) {
    release_registers<kRegisters.other>();
    transpose<kTile>(args, grad_output_map, input_map, shared, barriers, tile, split, first_patch,
                     patches);
    return;
  }
  take_registers<kRegisters.math>();
  Sums<kTile> sums = {};
  multiply<kTile, kWalk>(args, shared, barriers, tile, first_patch, patches, sums);
  float4* to = reinterpret_cast<float4*>(args.partial) +
               (int64_t{split} * args.tiles + tile_index) * (kTile.values() / 4) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kTile.quads(); ++i) {
    const float* const four =
        &sums[i / 8 / kTile.instructions][i / 8 % kTile.instructions][i % 8 * 4];
    *to = make_float4(four[0], four[1], four[2], four[3]);
    to += kTile.math_threads();
  }
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
