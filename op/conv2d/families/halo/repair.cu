#include "conv2d/families/halo/repair.h"

#include "conv2d/families/halo/repairer.cuh"
#include "conv2d/families/halo/warp_marks.cuh"
#include "cuda/check.h"

namespace haloconv::halo {

namespace {

// Pieces of what is marked are numbered, and all warps, or all blocks if kShares, take each number
// in turns: so many pieces may be marked that they take a while, or so few that no warp should have
// two of them.
template <class T, bool kShares>
__global__ void __launch_bounds__(kRepairThreads, kRepairBlocks)
    repair_kernel(const __grid_constant__ Arguments args) {
  __shared__ RepairShared shared;
  WarpMarks marks(args, 0);  // on their way meanwhile
  if (*args.has_marks == 0) return;
  const uint32_t takers = kShares ? gridDim.x : gridDim.x * kRepairWarps;
  const uint32_t taker = kShares ? blockIdx.x : blockIdx.x * kRepairWarps + threadIdx.x / 32;
  const auto pixels =
      static_cast<uint32_t>(args.group_images * args.group_rows * args.group_columns);
  const uint32_t pieces = (pixels + kPiecePixels - 1) / kPiecePixels;
  const uint64_t count = uint64_t{args.tiles} * kMathWarps;
  Repairer<T, kShares> repairer(args, shared);
  uint32_t turn = 0;  // the taker of the first piece
#pragma unroll 1
  for (uint64_t first = 0;;) {
    const uint32_t marked = marks.count(count - first) * pieces;
#pragma unroll 1
    for (uint32_t number = taker - turn + (taker < turn ? takers : 0); number < marked;
         number += takers) {
      const uint32_t mark = number / pieces;
      repairer.run(first + marks.find(mark), static_cast<int32_t>(number - mark * pieces));
    }
    first += WarpMarks::kCount;
    if (first >= count) return;
    turn = (turn + marked) % takers;
    marks = WarpMarks(args, first);
  }
}

}  // namespace

template <class T>
void launch_repair(const Arguments& args, int multiprocessors, cudaStream_t stream) {
  const bool shares = args.chunks >= kRepairWarps;  // each warp of a block has some
  const auto kernel = shares ? repair_kernel<T, true> : repair_kernel<T, false>;
  const auto blocks = static_cast<unsigned>(multiprocessors * kRepairBlocks);
  kernel<<<blocks, kRepairThreads, 0, stream>>>(args);
  check_launch("halo repair");
}

template void launch_repair<float>(const Arguments&, int, cudaStream_t);
template void launch_repair<PreciseFloat>(const Arguments&, int, cudaStream_t);
template void launch_repair<__half>(const Arguments&, int, cudaStream_t);
template void launch_repair<__nv_bfloat16>(const Arguments&, int, cudaStream_t);

}  // namespace haloconv::halo
