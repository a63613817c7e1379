// fprop and dgrad by strips: strips.h.
//
// All threads of a group copy, turn, multiply and write; one group multiplies while others turn
// rows or write results.
#pragma once

#include "conv2d/families/implicit_gemm/strips/epilogue.cuh"
#include "conv2d/families/implicit_gemm/strips/loader.cuh"
#include "conv2d/families/implicit_gemm/windows/epilogue.cuh"

namespace haloconv::implicit_gemm {

// As __syncthreads() for a group.
__device__ __forceinline__ void sync_group(int32_t group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kStripTile.threads()) : "memory");
}

#ifdef __CUDA_ARCH__
inline constexpr int kMostStripGroups = most_strip_groups(__CUDA_ARCH__ / 10);
#else
inline constexpr int kMostStripGroups = most_strip_groups(90);
#endif

// Threads: x in a group, y groups.
template <class T>
__global__ void __launch_bounds__(kStripTile.threads() * kMostStripGroups, 1)
    implicit_gemm_strips_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kStripTile;
  extern __shared__ __align__(128) unsigned char shared[];
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[0];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = thread / 32, lane = thread % 32;
  const auto number = static_cast<int32_t>(threadIdx.y);  // of the group of warps

  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t rest = args.channel_tiles.quotient(block);
  const int32_t tile_channel = (block - rest * args.channel_tiles.divisor) * kTile.channels;
  const int32_t first_strips = rest / g.groups, group = rest - first_strips * g.groups;

  const int32_t depths = args.windows.depths(phase.h.taps * phase.w.taps);
  auto& factors = *reinterpret_cast<StripFactors*>(shared);
  static_assert(sizeof(factors) == factor_bytes(kTile));
  const uint32_t filter = shared_address(shared) + sizeof(factors);
  const uint32_t ring = filter + strip_filter_bytes(depths) +
                        number * (args.windows.bytes + kStagedRows * args.staging.bytes +
                                  strip_slices_bytes(sizeof(T)));
  const uint32_t staging = ring + args.windows.bytes;
  const uint32_t slice = staging + kStagedRows * args.staging.bytes +
                         warp * strip_channels(sizeof(T)) * strip_pitch(sizeof(T));
  const sm90::Results results = results_of<T>(args, group);
  if (number == 0) factors.template fill<T, kTile.threads()>(results, tile_channel, thread);
  const int64_t packed = (group * args.filter_group + phase.packed_offset) * int64_t{sizeof(T)} +
                         tile_channel / kFragmentChannels * kFragmentBytes;
  StripFilter::copy(args, filter, static_cast<const char*>(args.filter) + packed, depths,
                    number * kTile.threads() + thread, args.strips.groups * kTile.threads());
  wait_for_copies();
  __syncthreads();

  const int32_t row_bytes = args.windows.pitch.divisor * kUnitBytes;
  const int32_t reach = tap_reach(phase.h.taps, g.axis_h.shift_step);
  const int32_t ring_bytes = ring_rows(reach) * row_bytes;
  const auto row_after = [&](int32_t row) {
    return row + row_bytes == ring_bytes ? 0 : row + row_bytes;
  };
  const bool counts_backwards = g.axis_h.shift_step < 0;
  const int32_t channel = tile_channel + warp * kTile.warp_channels;
  StripProducts<T> products(args, filter, ring, warp, lane);
  const auto strips = static_cast<int32_t>(args.pixel_tiles);
  // Of as many neighbouring strips as there are groups each has one, and one further each time, so
  // that those at the ends of rows, which take longer, are everybody's.
  const int32_t groups = args.strips.blocks * args.strips.groups;
  int32_t turn = first_strips * args.strips.groups + number;
#pragma unroll 1
  for (int32_t first = 0; first < strips; first += groups) {
    const int32_t strip = first + turn;
    turn = turn + 1 == groups ? 0 : turn + 1;
    if (strip >= strips) continue;
    const PatchPosition at(args, args.strips.rows, 0, group, strip);
    const int32_t rows = min(args.strips.rows, phase.h.pixels - at.row);
    T* to = static_cast<T*>(results.to) + channel * g.destination.c +
            destination_pixel(g, phase, {at.image, at.row, at.column});
    StripLoader<T> loader(args, at);
    uint32_t staged = staging;  // the next row
    loader.copy_row(staged, true);
    int32_t newest = 0;  // row of the ring that this one's taps meet, in bytes
#pragma unroll 1
    for (int32_t row = -reach - 1; row < rows; ++row) {
      const int32_t next = row_after(newest);
      const bool has_next = row + 1 < rows;
      if (has_next) wait_for_copies();
      // All threads' copies of the next row are there, all have turned the row before it, and
      // nobody reads the ring's place for it.
      sync_group(number);
      if (has_next) {
        const uint32_t other = 2 * staging + args.staging.bytes - staged;
        loader.copy_row(other, row + 2 < rows);
        loader.turn_row(staged, ring + next);
        staged = other;
      }
      if (row >= 0) {
        StripSums<T> sums = {};
        // The first tap of all meets the eldest row, or where taps count backwards the newest.
        products.begin_row(counts_backwards ? newest : row_after(next));
#pragma unroll 1
        for (int32_t step = 0; step < depths / 2; ++step) {
          products.template multiply<0>(sums);
          products.template multiply<1>(sums);
        }
        if (depths % 2 != 0) products.template multiply<0>(sums);
        write_strip_row<T>(args, factors, warp * kTile.warp_channels, slice, to,
                           results.channels - channel, at.column == 0, phase.w.pixels - at.column,
                           lane, sums);
        to += g.axis_h.pixel_step * g.destination.h;
      }
      newest = next;
    }
  }
}

}  // namespace haloconv::implicit_gemm
