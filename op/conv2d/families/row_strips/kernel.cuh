// At most 32 destination channels by filters of at most five rows, in TF32 or 16-bit types on
// Hopper's tensor cores, as arguments.h says.
//
// A block stays on its multiprocessor, with the packed filter in its shared memory. It sweeps
// bands: one warpgroup brings source pixels to a ring, and two compute with them.
#pragma once

#include <type_traits>

#include "conv2d/families/row_strips/exchange.cuh"
#include "conv2d/families/row_strips/loader.cuh"
#include "conv2d/families/row_strips/mainloop.cuh"
#include "cuda/cluster.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/registers.cuh"

namespace haloconv::row_strips {

// Registers of a thread. A block of three warpgroups starts with 168 for each thread, and never
// gets more than 3 * 168 in all.
template <class T>
inline constexpr int kMathRegisters = std::is_same_v<T, float> ? 232 : 216;
template <class T>
inline constexpr int kLoadRegisters = 3 * 168 - 2 * kMathRegisters<T>;

// Zero times each of a word's values, added up: NaN if one of them is an infinity or NaN.
template <class T>
__device__ __forceinline__ float add_word_zeros(float sum, uint32_t weights) {
#pragma unroll
  for (int i = 0; i < Element<T>::kPerWord; ++i) {
    sum = fmaf(0, Element<T>::value(weights, i), sum);
  }
  return sum;
}

// kBlocks: of a cluster, which share the source channels.
template <class T, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    row_strips_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t rank = kBlocks > 1 ? cluster_rank() : 0;

  // All threads arrive, not one of each warp: compute-sanitizer's racecheck follows only that.
  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), kLoadThreads);
      cuda::ptx::mbarrier_init(shared.empty(i), kMathThreads);
    }
    for (int i = 0; i < 2; ++i) {
      cuda::ptx::mbarrier_init(shared.is_sent(i), 1);
      cuda::ptx::mbarrier_init(shared.is_read(i), kMathThreads / 2);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  wait_for_kernel_before();  // which packs the filter
  float zeros = 0;
  const uint4* const packed =
      static_cast<const uint4*>(args.packed) + rank * (args.weights_bytes / 16);
#pragma unroll 8
  for (int32_t i = thread; i < args.weights_bytes / 16; i += kThreads) {
    const uint4 weights = packed[i];
    shared.weights()[i] = weights;
    zeros = add_word_zeros<T>(zeros, weights.x);
    zeros = add_word_zeros<T>(zeros, weights.y);
    zeros = add_word_zeros<T>(zeros, weights.z);
    zeros = add_word_zeros<T>(zeros, weights.w);
  }
  if (thread < kChannels) {
    shared.bias()[thread] = args.bias != nullptr && thread < args.rows
                                ? Element<T>::to_float(static_cast<const T*>(args.bias)[thread])
                                : 0;
  }
  // wgmma reads the weights by another path than these writes take.
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  const bool has_zeros = __syncthreads_or(isnan(zeros)) != 0;
  if constexpr (kBlocks > 1) cluster_sync();

  if (thread >= kMathThreads) {
    release_registers<kLoadRegisters<T>>();
    Loader<T>(args, shared, thread % kLoadThreads, rank * args.chunks * kChunk<T>, has_zeros)
        .template run<kBlocks>();
  } else {
    take_registers<kMathRegisters<T>>();
    Mainloop<T> mainloop(args, shared, thread, rank);
    std::conditional_t<(kBlocks > 1), ExchangingEpilogue<T>, WholeEpilogue<T>> epilogue(
        args, shared, thread, rank);
    Sums sums;
    for_each_segment<kBlocks>(args, [&](int32_t band, const Segment& segment) {
      epilogue.finish();
      epilogue.begin(band, segment.image);
#pragma unroll
      for (auto& instruction : sums) {
#pragma unroll
        for (float& sum : instruction) sum = 0;
      }
      const int32_t lines = args.source_lines(segment);
      for (int32_t line = 0; line < lines; ++line) {
        const bool multiplies = is_multiplied(args, args.source_row(segment, line), has_zeros);
        mainloop.run(sums, multiplies ? args.chunks : 0, [&] { epilogue.finish(); });
        epilogue.finish();
        const int32_t row = args.complete_row(segment, line);
        // The last residues have a row less.
        if (row >= 0 && row < args.height) epilogue.take(sums, row);
        mainloop.shift(sums);
      }
    });
    epilogue.finish();
  }
  // A block must not end while the other may still reach its shared memory.
  if constexpr (kBlocks > 1) cluster_sync();
}

}  // namespace haloconv::row_strips
