// The weight gradient in TF32 on Hopper: a matrix product over all pixels, as arguments.h says.
//
// A block computes, for its rows (output channels) and columns (taps and input channels), the sum
// over a share of the pixels. Two of its warpgroups bring strips of pixels to a ring in shared
// memory; two compute, with all sums in registers.
#pragma once

#include "conv2d/sm90/wgrad/grad_output_loader.cuh"
#include "conv2d/sm90/wgrad/mainloop.cuh"
#include "conv2d/sm90/wgrad/partial_sums.cuh"
#include "conv2d/sm90/wgrad/window_loader.cuh"

namespace haloconv::sm90::wgrad {

// Registers of a thread, 512 for one of each warpgroup: what the load warps give back lets all sums
// stay in registers.
inline constexpr int kMathRegisters = 184;
inline constexpr int kWindowRegisters = 104;
inline constexpr int kGradOutputRegisters = 512 - kMathGroups * kMathRegisters - kWindowRegisters;

template <int kSlots, int kWidth>
__global__ void __launch_bounds__(kThreads, 1)
    wgrad_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const Block block = args.block(blockIdx.x);
  const int32_t first_strip = args.first_strip(block.split);
  const int32_t strips = args.strips_of(block.split);

  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), 2 * kLoadThreads);
      cuda::ptx::mbarrier_init(shared.empty(i), kMathWarps);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  make_quad_table(args, shared, block);
  __syncthreads();

  const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
  if (group == kMathGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kWindowRegisters));
    if (args.input_vector == 4) {
      WindowLoader<4>(args, shared, block, thread % 128).run(first_strip, strips);
    } else {
      WindowLoader<1>(args, shared, block, thread % 128).run(first_strip, strips);
    }
  } else if (group > kMathGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kGradOutputRegisters));
    GradOutputLoader(args, shared, block, thread % 128).run(first_strip, strips);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMathRegisters));
    Mainloop<kSlots, kWidth> mainloop(args, shared, block, group, thread % 128);
    PartialSums<kSlots, kWidth> partial(args, block, group, thread % 128);
    int32_t left = strips;
    do {
      float sums[kSlots][kWidth / 2], row_sums[2];
      mainloop.run(sums, row_sums, min(left, args.round_strips));
      partial.add(sums, row_sums);
      left -= args.round_strips;
    } while (left > 0);
  }
}

}  // namespace haloconv::sm90::wgrad
