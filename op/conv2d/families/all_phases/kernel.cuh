// dgrad with a stride, the forward pass of a transposed convolution: all pixels of a period (see
// arguments.h) and all their channels are columns of one product, so that nothing is brought for
// each phase of the stride again, and whole rows of the result are written at once.
//
// A warpgroup brings chunks of the source's channels, and of the packed filter, to a ring in shared
// memory; two others compute and write.
#pragma once

#include "conv2d/families/all_phases/epilogue.cuh"
#include "conv2d/families/all_phases/loader.cuh"
#include "conv2d/families/all_phases/mainloop.cuh"

namespace haloconv::all_phases {

// Of a multiprocessor.
template <int kBlocks>
inline constexpr int kBlocksAtOnce = kBlocks == 1 ? 2 : 1;

template <class T, int kBlocks, int kColumns>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<kBlocks>)
    all_phases_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory<kColumns> shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  using Bring = Loader<T, kBlocks, kColumns>;
  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), Bring::arrivals(args));
      cuda::ptx::mbarrier_init(shared.empty(i), kMathGroups * 4);
    }
    if constexpr (takes_lone_weights(kColumns)) {
      for (int i = 0; i < kMathGroups; ++i) shared.flags(i)->column_tile = -1;
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  constexpr int kPeriods = kMathGroups * kBlocks * 64;
  if (thread >= kMathGroups * 128) {
    Bring loader(args, shared, thread - kMathGroups * 128);
    for (auto index = static_cast<int32_t>(blockIdx.x); index < args.tiles;
         index += static_cast<int32_t>(gridDim.x)) {
      loader.bring(TilePosition(args, index, kPeriods));
    }
    return;
  }
  const int32_t warp = __shfl_sync(~0u, thread / 32, 0);  // the compiler sees it is uniform
  Mainloop<T, kBlocks, kColumns> mainloop(args, shared, warp / 4, thread % 32);
  ColumnPlace* const columns = shared.columns(warp / 4);
  ColumnFlags* const flags = shared.flags(warp / 4);
  for (auto index = static_cast<int32_t>(blockIdx.x); index < args.tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const TilePosition tile(args, index, kPeriods);
    if (!takes_lone_weights(kColumns) || tile.column_tile != flags->column_tile) {
      fill_columns<T, kColumns>(args, tile, columns, flags, warp / 4, thread % 128);
    }
    float sums[kBlocks][kColumns / 2];
    mainloop.run(sums);
    write_results<T>(args, shared, tile, columns, sums, warp, thread % 32);
  }
}

}  // namespace haloconv::all_phases
