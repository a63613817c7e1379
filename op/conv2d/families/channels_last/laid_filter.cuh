// A filter that stays, put into shared memory by the threads that multiply: laid_filter.h.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/channels_last/laid_filter.h"
#include "conv2d/families/channels_last/windows.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/named_barrier.cuh"

namespace haloconv::sm90::channels_last {

enum class LaidFilterBarrier { kIsLaid = 5 };

// By the kThreads first threads, from `to` on. Afterwards all of these see it, and so do their
// matrix instructions.
template <Tile kTile, bool kDgrad, int kThreads>
__device__ __forceinline__ void lay_filter(const WindowArguments& args, uint32_t to) {
  static_assert(kTile.element_bytes == 2);
  constexpr int kAtOnce = 8;  // loads on their way
  const int32_t rows = kDgrad ? args.source_channels : args.results.channels;
  const int32_t columns = kDgrad ? args.results.channels : args.source_channels;
  // Neighbouring threads have neighbouring units: of a row, as long as one is, or of a chunk of it.
  constexpr int kUnits = (kDgrad ? kTile.channels : kTile.depth) / 8;
  const auto row_of = [](int32_t i) { return kDgrad ? i / kUnits : i / kUnits % kTile.channels; };
  const auto unit_of = [](int32_t i) {
    return kDgrad ? i % kUnits : i / (kUnits * kTile.channels) * kUnits + i % kUnits;
  };
  const int32_t end = args.chunks * kTile.depth * (kTile.channels / 8);
  wait_for_kernel_before();
#pragma unroll 1
  for (auto first = static_cast<int32_t>(threadIdx.x); first < end; first += kThreads * kAtOnce) {
    uint4 values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t at = first + i * kThreads, row = row_of(at), column = unit_of(at) * 8;
      values[i] = make_uint4(0, 0, 0, 0);
      if (row < rows && column < columns) {
        values[i] = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(args.filter) +
                                                    row * args.filter_step + column);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t at = first + i * kThreads;
      if (at >= end) break;
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                       to + laid_at(kTile, kDgrad, row_of(at), unit_of(at))),
                   "r"(values[i].x), "r"(values[i].y), "r"(values[i].z), "r"(values[i].w)
                   : "memory");
    }
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  named_barrier_sync<LaidFilterBarrier::kIsLaid, kThreads>();
}

}  // namespace haloconv::sm90::channels_last
