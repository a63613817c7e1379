// The weight gradient on Hopper, in TF32, in float32 or of a 16-bit type: a matrix product over all
// pixels, as arguments.h says.
//
// A block computes, for its rows (output channels) and columns (taps and input channels), the sum
// over a share of the pixels. Two of its warpgroups bring strips of pixels to a ring in shared
// memory, or one and the copy engine; two compute, with all sums in registers.
#pragma once

#include <type_traits>

#include "conv2d/families/wgrad/grad_output_boxes.cuh"
#include "conv2d/families/wgrad/grad_output_loader.cuh"
#include "conv2d/families/wgrad/mainloop.cuh"
#include "conv2d/families/wgrad/partial_sums.cuh"
#include "conv2d/families/wgrad/precise_mainloop.cuh"
#include "conv2d/families/wgrad/window_loader.cuh"
#include "cuda/registers.cuh"

namespace haloconv::wgrad {

// Registers of a thread, 512 for one of each warpgroup: what the load warps give back lets all sums
// stay in registers. Few sums leave the copies some, and are what copies have to keep up with.
// Of kernels of few sums float32's spill with 144, those of 16-bit types with 152.
template <class T, int kInstructions, int kWidth>
struct Registers {
  static constexpr int kSums = kInstructions * kWidth / 2;
  static constexpr bool kPrecise = Element<T>::kTerms == 2;  // sums twice
  static constexpr bool kFew = has_few_sums(kInstructions, kWidth) && !kPrecise;
  // With so many the two loops of Mainloop need more than 184, or they spill, or each instruction
  // waits for the one before.
  static constexpr bool kMany = kSums > (sizeof(T) == 2 ? 128 : 140) && !kPrecise;
  static constexpr int kMath = kPrecise || kMany ? 192 : kFew ? (sizeof(T) == 2 ? 144 : 152) : 184;
  static constexpr int kWindow = kPrecise ? 88 : kMany ? 96 : 104;
  static constexpr int kGradOutput = 512 - kMathGroups * kMath - kWindow;
};

// Writes the cells that stay zero. All threads of the block take part.
__device__ __forceinline__ void clear_zeros(const Arguments& args, const SharedMemory& shared) {
  auto* const zeros = reinterpret_cast<uint4*>(shared.zeros());
  for (auto i = static_cast<int32_t>(threadIdx.x); i < args.zero_cells; i += kThreads) {
    zeros[i] = make_uint4(0, 0, 0, 0);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // the tensor cores read them
}

template <class T, int kInstructions, int kWidth, bool kBoxes>
__global__ void __launch_bounds__(kThreads, 1)
    wgrad_kernel(const __grid_constant__ Arguments args, const __grid_constant__ RowMaps maps) {
  constexpr bool kShifts = kShiftsSegments<T, kInstructions, kWidth, kBoxes>;
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const Block block = args.block(blockIdx.x);

  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), kLoadThreads + (kBoxes ? 1 : kLoadThreads));
      cuda::ptx::mbarrier_init(shared.stage_read(i), kMathGroups * 128);
      cuda::ptx::mbarrier_init(shared.lines_read(i), kMathWarps);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  make_bundle_table<T>(args, shared, block);
  clear_zeros(args, shared);
  __syncthreads();

  const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
  if (group == kMathGroups) {
    release_registers<Registers<T, kInstructions, kWidth>::kWindow>();
    if (args.input_vector == 4) {
      WindowLoader<T, 4, kShifts>(args, shared, block, thread % 128).run();
    } else {
      WindowLoader<T, 1, kShifts>(args, shared, block, thread % 128).run();
    }
  } else if (group > kMathGroups) {
    release_registers<Registers<T, kInstructions, kWidth>::kGradOutput>();
    if constexpr (kBoxes) {
      if (thread % 128 == 0) GradOutputBoxes(args, maps, shared, block).run();
    } else {
      load_grad_output<T, Registers<T, kInstructions, kWidth>::kFew, kShifts>(args, shared, block,
                                                                              thread % 128);
    }
  } else {
    take_registers<Registers<T, kInstructions, kWidth>::kMath>();
    using Loop = std::conditional_t<Registers<T, kInstructions, kWidth>::kPrecise,
                                    PreciseMainloop<T, kInstructions, kWidth, kBoxes>,
                                    Mainloop<T, kInstructions, kWidth, kBoxes>>;
    Loop mainloop(args, shared, block, group, thread % 128);
    PartialSums<kInstructions, kWidth> partial(args, block, group);
    int32_t left = args.strips_of(block.split);
    do {
      float sums[kInstructions][kWidth / 2], row_sums[2];
      mainloop.run(sums, row_sums, left);
      partial.add(sums, row_sums);
    } while (left > 0);
  }
}

}  // namespace haloconv::wgrad
