// fprop of inputs with few channels: output (pixels x channels) = units * filter or, if the
// output's rows are innermost, (channels x pixels) = filter * units. The filter stays in shared
// memory, and rows of units come through a ring.
#pragma once

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/first_layers/block_work.cuh"
#include "conv2d/families/first_layers/filter_image.h"
#include "conv2d/families/first_layers/fprop_products.cuh"
#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/line_rows.cuh"
#include "conv2d/families/first_layers/row_results.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::first_layers {

inline constexpr int kFpropThreads = (kMathGroups * 4 + kOtherWarps) * 32;

// A value as it is multiplied.
__device__ __forceinline__ float factor(float value) {
  return __uint_as_float(round_to_tf32(value));
}
template <class T>
__device__ __forceinline__ T factor(T value) {
  return value;
}

template <class T, int kN>
__device__ __forceinline__ void store_filter_image(const FpropArguments& args,
                                                   int32_t first_channel, unsigned char* image) {
  const UnitRow& units = args.sweep.units;
  const int32_t elements = args.sweep.r * units.groups * kN * (kUnitBytes / sizeof(T));
#pragma unroll 4
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < elements; i += kFpropThreads) {
    const FilterPlace place(units, kN, i);
    const int64_t k = first_channel + place.channel;
    const bool exists = place.exists(units) && k < args.results.channels;
    const T value =
        exists ? __ldg(static_cast<const T*>(args.filter) + k * args.filter_k +
                       place.c * args.filter_c + place.r * args.filter_r + place.s * args.filter_s)
               : T(0.0f);
    reinterpret_cast<T*>(image)[i] = factor(value);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
}

// kN channels; kRows: the output's rows are innermost, kN is a multiple of 64.
template <class T, int kN, bool kFused, bool kRows>
__global__ void __launch_bounds__(kFpropThreads, kRows || kN <= 64 ? 2 : 1)
    fprop_kernel(const __grid_constant__ FpropArguments args) {
  extern __shared__ unsigned char shared_base[];
  __shared__ RowBarriers barriers;
  __shared__ ChannelTable<kFused && !kRows ? kN : 0> table;
  static_assert(kMostSharedBytes + sizeof(barriers) + sizeof(table) <= kMaxShared);
  const Sweep& sweep = args.sweep;
  const uint32_t base = shared_address_of(shared_base);
  unsigned char* const filter = shared_base + ((base + 127) / 128 * 128 - base);
  unsigned char* const ring = filter + sweep.r * sweep.units.groups * kN * kUnitBytes;
  unsigned char* const lines = ring + sweep.ring * sweep.row_bytes;
  const FpropWork<kN> work(args);
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    barriers.init(sweep.ring);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  store_filter_image<T, kN>(args, work.first_channel, filter);
  __syncthreads();

  if (warp >= kMathGroups * 4) {
    bring_rows<T, kOtherWarps>(sweep, ring, lines, barriers, warp - kMathGroups * 4,
                               work.first_tile, work.end_tile);
    return;
  }
  const int32_t group = warp / 4;
  const int32_t group_row = sweep.tile_rows > 1 ? group : 0;
  const int32_t group_column = sweep.tile_rows > 1 ? 0 : group * 64;
  RowConsumer rows(sweep, barriers);
  FusedTiles<T, kFused && !kRows ? kN : 0, kMathGroups * 128> fused(args.results, table);
  fused.begin(work.first_channel);
  const RowResults<T, kFused> row_results(args, lines + kOtherWarps * sweep.lines.bytes(sizeof(T)) +
                                                    warp * RowResults<T, kFused>::kBytes);
  for (int32_t tile = work.first_tile; tile < work.end_tile; ++tile) {
    const TilePlace place(sweep, tile);
    const int32_t done = rows_done_after(sweep, place, tile + 1 == work.end_tile);
    rows.wait(max(sweep.rows_of_tile(), done));
    const uint32_t units = shared_address_of(ring) + group_column * kUnitBytes;
    const int32_t p = place.band * sweep.tile_rows + group_row;
    const int32_t first_q = place.strip * sweep.columns + group_column;
    const int64_t row_at = place.image * args.destination_n + p * args.destination_h;
    if constexpr (kRows) {
#pragma unroll 1
      for (int32_t of_tile = 0; of_tile < kN; of_tile += 64) {
        float sums[32] = {};
        multiply<T, kN, true>(sweep, rows, group_row * sweep.stride_h, units,
                              shared_address_of(filter) + of_tile * kUnitBytes, sums);
        if (of_tile + 64 == kN) rows.release(done);
        row_results.write(sums, work.first_channel + of_tile + warp % 4 * 16, row_at, p < sweep.p,
                          first_q);
      }
    } else {
      float sums[1][kN / 2] = {};
      multiply<T, kN, false>(sweep, rows, group_row * sweep.stride_h, units,
                             shared_address_of(filter), sums[0]);
      rows.release(done);
      Places<1> places;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t q = first_q + pixel_in_block(warp % 4, lane, half);
        places.inside[half] = p < sweep.p && q < sweep.q;
        places.at[half] = row_at + q * args.destination_w;
      }
      write_tile(fused, args.results, places, work.first_channel, lane, sums);
    }
  }
}

}  // namespace haloconv::sm90::first_layers
