// dgrad with a stride of 2 along rows, rows innermost, in TF32: the forward pass of a transposed
// convolution.
//
// The result's even and odd columns, its two phases, meet the same source pixels by other taps. A
// block computes both: it brings the source once, and writes neighbours together. (A kernel for one
// phase would write every second pixel.) One warp brings chunks of the source and of the packed
// filter to a ring in shared memory by the copy engine, which rounds; two warpgroups compute.
#pragma once

#include "conv2d/families/phase_pairs/epilogue.cuh"
#include "conv2d/families/phase_pairs/fused_epilogue.cuh"
#include "conv2d/families/phase_pairs/mainloop.cuh"
#include "conv2d/families/phase_pairs/producer.cuh"
#include "cuda/registers.cuh"

namespace haloconv::phase_pairs {

// Of a multiprocessor.
template <int kBlocks>
inline constexpr int kBlocksAtOnce = kBlocks == 1 ? 2 : 1;

// How many registers each thread has after the group that brings chunks has released its own.
template <int kBlocks>
inline constexpr int kMathRegisters = kBlocks == 1 ? 104 : 240;
inline constexpr int kLoadRegisters = 24;

// The registers with which a thread begins: equal shares of the multiprocessor's, in multiples
// of 8. A thread that takes more than the others have released waits forever.
template <int kBlocks>
inline constexpr int kFirstRegisters = 65536 / (kBlocksAtOnce<kBlocks> * kThreads) / 8 * 8;
template <int kBlocks>
inline constexpr bool kRegistersSuffice = kMathGroups * kMathRegisters<kBlocks> + kLoadRegisters <=
                                          (kMathGroups + 1) * kFirstRegisters<kBlocks>;
static_assert(kRegistersSuffice<1> && kRegistersSuffice<2>);

// kPattern: its number in kPatterns.
template <int kPattern, int kBlocks, int kChannels>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<kBlocks>)
    phase_pairs_kernel(const __grid_constant__ Arguments args,
                       const __grid_constant__ CUtensorMap source) {
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), 1);
      cuda::ptx::mbarrier_init(shared.empty(i), kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  if (thread >= kMathGroups * 128) {
    release_registers<kLoadRegisters>();
    if (thread == kMathGroups * 128) {
      bring_tiles(args, &source, shared, kPatterns[kPattern].depth());
    }
    return;
  }
  take_registers<kMathRegisters<kBlocks>>();
  const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // so the compiler sees it is uniform
  using Loop = Mainloop<kPattern, kBlocks, kChannels>;
  Loop mainloop(args, shared, group, thread % 128);
  for (auto index = static_cast<int32_t>(blockIdx.x); index < args.tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const TilePosition tile(args, index);
    typename Loop::Sums sums;
    mainloop.run(sums, args.phase[tile.phase].taps);
    write_results<kBlocks, kChannels>(args, tile, sums, group, thread % 128);
    if (args.is_fused) complete_results<kBlocks, kChannels>(args, tile);
  }
}

}  // namespace haloconv::phase_pairs
