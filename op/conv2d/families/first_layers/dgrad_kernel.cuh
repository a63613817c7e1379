// The kernel of dgrad_arguments.h: each warpgroup that multiplies has a warp that brings its rows
// of grad_output, by windows of 64 channels, and transposes them if rows are innermost.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/first_layers/dgrad_results.cuh"
#include "conv2d/families/first_layers/dgrad_transpose.cuh"
#include "conv2d/families/first_layers/operands.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::first_layers {

template <int kGroups>
inline constexpr int kDgradThreads = kGroups * 160;

// The whole filter as the second operand, made by the threads that multiply.
template <class T, int kRows, int kChannels, int kGroups>
__device__ __forceinline__ void store_position_filter(const DgradArguments& args,
                                                      unsigned char* to) {
  constexpr int kThreads = kGroups * 128;
  constexpr int32_t kBarrier = kGroups + 1;  // beyond the groups' own
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = thread; i < args.filter_bytes / 16; i += kThreads) {
    reinterpret_cast<uint4*>(to)[i] = {};
  }
  group_barrier_sync<kThreads>(kBarrier);
  const int32_t elements = args.k * args.r.divisor * args.s.divisor * args.c.divisor;
#pragma unroll 8
  for (int32_t i = thread; i < elements; i += kThreads) {
    const int32_t above_c = args.c.quotient(i), c = i - above_c * args.c.divisor;
    const int32_t above_s = args.s.quotient(above_c), s = above_c - above_s * args.s.divisor;
    const int32_t k = args.r.quotient(above_s), r = above_s - k * args.r.divisor;
    const T value = __ldg(static_cast<const T*>(args.filter) + k * args.filter_k +
                          c * args.filter_c + r * args.filter_r + s * args.filter_s);
    const int32_t place =
        dgrad_filter_place(args, DgradShape{kRows, kChannels}, args.tap(r, s, c), k);
    *reinterpret_cast<T*>(to + place) = value;
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  group_barrier_sync<kThreads>(kBarrier);
}

__device__ __forceinline__ void bring_windows(const DgradArguments& args, const CUtensorMap& map,
                                              uint32_t windows, WindowBarriers& barriers,
                                              int32_t first, int32_t end) {
  const uint32_t bytes = (kStripColumns + args.taps_w - 1) * 128;
  RingPosition ring;
  for (int32_t at = first; at < end;) {
    const StripPart part = args.part(at, end);
    const int32_t column = part.column - (args.taps_w - 1);
    const int32_t first_row = args.first_row + part.row - (args.taps_h - 1);
    for (int32_t row = 0; row < part.rows + args.taps_h - 1; ++row) {
      for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
        uint64_t* const full = &barriers.full[ring.stage];
        mbarrier_wait(&barriers.empty[ring.stage], ring.parity ^ 1);
        cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                             cuda::ptx::space_shared, full, bytes);
        copy_box(windows + ring.stage * args.window_bytes, &map, shared_address_of(full),
                 chunk * kChunkChannels, column, first_row + row, part.image);
        ring.advance(args.windows);
      }
    }
    at += part.rows;
  }
}

// Adds a row of grad_output's products to the sums, and calls meanwhile() while they are computed.
template <class T, int kN, class Meanwhile>
__device__ __forceinline__ void multiply_row(const DgradArguments& args, uint32_t filter,
                                             uint32_t windows, WindowBarriers& barriers,
                                             RingPosition& ring, float (&sums)[kN / 2],
                                             Meanwhile meanwhile) {
  constexpr int kSteps = kChunkChannels / 16;
  uint64_t b = pixel_operand(filter);
  const RingPosition first = ring;
  int32_t steps_left = (args.k + 15) / 16;
#pragma unroll 1
  do {
    mbarrier_wait(&barriers.full[ring.stage], ring.parity);
    uint64_t a = pixel_operand(windows + ring.stage * args.window_bytes);
    int32_t taps = args.taps_w;
#pragma unroll 1
    do {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (i >= steps_left) break;
        wgmma_fence();
        wgmma_shared<T, kN, false, false>(sums, a + i * 2, b + i * 2);
      }
      a += 128 / 16;
      b += kN * 128 / 16;
    } while (--taps > 0);
    steps_left -= kSteps;
    ring.advance(args.windows);
  } while (steps_left > 0);
  wgmma_commit();
  meanwhile();
  wgmma_wait<0>();
  wgmma_settle(sums);
  RingPosition done = first;
  for (int32_t i = 0; i < args.chunks; ++i) {
    if (threadIdx.x % 32 == 0) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.empty[done.stage]);
    }
    done.advance(args.windows);
  }
}

template <class T, int kRows, int kChannels, int kGroups, bool kRowsInnermost>
__global__ void __launch_bounds__(kDgradThreads<kGroups>, 1)
    dgrad_kernel(const __grid_constant__ CUtensorMap map,
                 const __grid_constant__ DgradArguments args) {
  constexpr int kN = kRows * kChannels, kOfRow = kChannels / 2;
  extern __shared__ unsigned char shared_base[];
  __shared__ WindowBarriers barriers[kGroups];
  const uint32_t base = shared_address_of(shared_base);
  unsigned char* const filter = shared_base + ((base + 1023) / 1024 * 1024 - base);
  unsigned char* const windows = filter + args.filter_bytes;
  unsigned char* const boxes = windows + kGroups * args.windows * args.window_bytes;
  unsigned char* const staging = boxes + kGroups * args.boxes * args.box_bytes;
  const int32_t warp = this_warp();
  const bool multiplies = warp < kGroups * 4;
  const int32_t group = multiplies ? warp / 4 : warp - kGroups * 4;
  WindowBarriers& own = barriers[group];
  const uint32_t own_windows =
      shared_address_of(windows) + group * args.windows * args.window_bytes;
  const int32_t worker = static_cast<int32_t>(blockIdx.x) * kGroups + group;
  const int32_t first = worker * args.worker_rows;
  const int32_t end = min(first + args.worker_rows, args.all_rows);
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&map);
    for (WindowBarriers& of : barriers) {
      for (int32_t i = 0; i < args.windows; ++i) {
        cuda::ptx::mbarrier_init(&of.full[i], 1);
        cuda::ptx::mbarrier_init(&of.empty[i], 4);
      }
      for (int32_t i = 0; i < args.boxes; ++i) cuda::ptx::mbarrier_init(&of.box[i], 1);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  wait_for_kernel_before();

  if (!multiplies) {
    if constexpr (kRowsInnermost) {
      const uint32_t own_boxes = shared_address_of(boxes) + group * args.boxes * args.box_bytes;
      transpose_windows(args, map, own_windows, own_boxes, own, first, end);
    } else {
      if (threadIdx.x % 32 == 0) bring_windows(args, map, own_windows, own, first, end);
    }
    return;
  }
  store_position_filter<T, kRows, kChannels, kGroups>(args, filter);
  RowWriter<T, kChannels> writer(
      args, reinterpret_cast<T*>(staging + group * 2 * args.staging_bytes()), group);
  const uint32_t first_window = own_windows + args.box_shift * 128;
  RingPosition ring;
  for (int32_t at = first; at < end;) {
    const StripPart part = args.part(at, end);
    float sums[kN / 2] = {};
    float eldest[kOfRow];  // a row's results, written while the next one's products are made
#pragma unroll 1
    for (int32_t row = 1 - args.taps_h; row < part.rows; ++row) {
      multiply_row<T, kN>(args, shared_address_of(filter), first_window, own, ring, sums, [&] {
        if (row > 0) writer.write(part, row - 1, eldest);
      });
#pragma unroll
      for (int i = 0; i < kOfRow; ++i) eldest[i] = sums[i];
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) sums[i] = i + kOfRow < kN / 2 ? sums[i + kOfRow] : 0.0f;
    }
    writer.write(part, part.rows - 1, eldest);
    at += part.rows;
  }
}

}  // namespace haloconv::sm90::first_layers
