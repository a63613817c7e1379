// Few destination channels from many source channels, in TF32 or 16-bit types on Hopper, as
// arguments.h says.
//
// A block stays on its multiprocessor, with the packed filter in its shared memory. It sweeps
// bands: one warpgroup brings source pixels to a ring, and two compute with them.
#pragma once

#include "conv2d/families/few_channels/epilogue.cuh"
#include "conv2d/families/few_channels/loader.cuh"
#include "conv2d/families/few_channels/mainloop.cuh"
#include "conv2d/families/few_channels/shuffled_epilogue.cuh"
#include "conv2d/families/few_channels/zeros.cuh"
#include "cuda/registers.cuh"

namespace haloconv::few_channels {

// Registers of a thread. A block of three warpgroups starts with 168 for each thread, and never
// gets more than 3 * 168 in all.
inline constexpr int kMathRegisters = 224;
inline constexpr int kLoadRegisters = 3 * 168 - 2 * kMathRegisters;

template <class T, int kRowTaps, int kColumns, bool kShuffles>
__global__ void __launch_bounds__(kThreads, 1)
    few_channels_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);

  // All threads arrive, not one of each warp: compute-sanitizer's racecheck follows only that.
  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), kLoadThreads);
      cuda::ptx::mbarrier_init(shared.empty(i), kMathThreads);
    }
    cuda::ptx::mbarrier_init(shared.is_staged(), kShuffles ? 32 : kMathThreads);
    cuda::ptx::mbarrier_init(shared.is_read(), kShuffles ? 32 : kMathThreads);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  float zeros = 0;
  for (int32_t i = thread; i < args.weights_bytes / 16; i += kThreads) {
    const uint4 weights = static_cast<const uint4*>(args.packed)[i];
    shared.weights()[i] = weights;
    zeros = add_zeros<T>(zeros, weights);
  }
  for (int32_t i = thread; i < args.bias_floats; i += kThreads) {
    shared.bias()[i] = args.bias != nullptr && i < args.rows
                           ? Element<T>::to_float(static_cast<const T*>(args.bias)[i])
                           : 0;
  }
  // wgmma reads the weights by another path than these writes take.
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  const bool has_zeros = __syncthreads_or(isnan(zeros)) != 0;
  if (has_zeros) sum_zeros<T>(args, shared, thread);

  if (thread >= kMathThreads) {
    release_registers<kLoadRegisters>();
    if constexpr (!std::is_same_v<T, float>) {
      Loader<T, 1>(args, shared, thread % kLoadThreads).run();
    } else if (args.vector == 4) {
      Loader<float, 4>(args, shared, thread % kLoadThreads).run();
    } else {
      Loader<float, 1>(args, shared, thread % kLoadThreads).run();
    }
  } else {
    take_registers<kMathRegisters>();
    Mainloop<T, kRowTaps, kColumns> mainloop(args, shared, thread);
    std::conditional_t<kShuffles, ShuffledEpilogue<T, kRowTaps, kColumns>,
                       Epilogue<T, kRowTaps, kColumns>>
        epilogue(args, shared, thread, has_zeros);
    typename Mainloop<T, kRowTaps, kColumns>::Sums sums = {};
    for_each_segment(args, [&](int32_t band, const Segment& segment) {
      mainloop.begin(segment.image, args.source_column(band));
      epilogue.write_all();
      epilogue.begin(band, segment.image);
      const int32_t lines = args.source_lines(segment);
      for (int32_t line = 0; line < lines; ++line) {
        mainloop.run(sums, args.source_row(segment, line), [&] { epilogue.write_some(); });
        epilogue.write_all();
        const int32_t complete = line - (args.taps_h - 1);
        const int32_t row = segment.first_row + complete * args.row_step;
        // The last residues have a row less.
        if (complete >= 0 && row < args.height) epilogue.take(sums, row);
        mainloop.shift(sums);
      }
    });
    epilogue.write_all();
  }
}

}  // namespace haloconv::few_channels
