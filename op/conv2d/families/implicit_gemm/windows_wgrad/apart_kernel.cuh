// Weight and bias gradients by windows of the input (arguments.h), where threads of their own copy
// and prepare.
//
// Neither they nor those that multiply wait for all threads of the block: barriers in shared memory
// say which steps are ready and which have been multiplied.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/copy_rows.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/multiply_rows.cuh"

namespace haloconv::windows_wgrad {

template <class T, int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].threads(), 1)
    windows_wgrad_apart_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  extern __shared__ __align__(128) unsigned char shared[];
  const BlockPosition at(args, kTile);
  uint32_t begin = shared_address(shared);
  // Else it is asked for anew at each barrier, which takes 25 cycles.
  asm volatile("" : "+r"(begin));
  const SharedSteps<kTile> steps(args, begin);
  if (this_thread() == 0) steps.init_barriers(args.stages);
  if (args.bias_is_product) write_ones<T>(args, steps.ring);
  __syncthreads();
  if (this_warp() < kTile.warps) {
    multiply_rows<T, kTile>(args, at, steps);
  } else {
    copy_rows<T, kTile>(args, at, steps);
  }
}

}  // namespace haloconv::windows_wgrad
