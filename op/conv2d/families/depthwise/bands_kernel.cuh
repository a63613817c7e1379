// fprop and dgrad of groups with one channel, channels innermost, by band matrices: bands.h.
//
// What a block does with each row of the source, of all its strips at once:
//
//   send for a later row                          (bands_rows.cuh)
//   move the next row to the other set of planes
//   multiply this one                             (bands_sums.cuh)
//   put the sums of a finished row together       (bands_results.cuh)
//   write the row that was finished before
//   wait for all warps
//
// and after the last, if one is NaN: see to outputs that zeros made so   (bands_repair.cuh)
#pragma once

#include "conv2d/families/depthwise/bands_repair.cuh"
#include "conv2d/families/depthwise/bands_results.cuh"
#include "conv2d/families/depthwise/bands_rows.cuh"
#include "conv2d/families/depthwise/bands_sums.cuh"

namespace haloconv::depthwise {

// The rows of the source that a block's strips go down. Those that all have beside the source are
// left out: they add nothing, unless a weight is infinite.
struct BandIterations {
  int32_t first, end, last;  // of the source's rows; of all

  __device__ __forceinline__ BandIterations(const Bands& d, bool finite_weights)
      : first(0), end(d.iterations()), last(d.iterations()) {
    if (d.image_strips > 1 || !finite_weights) return;
    // The first output's last row is never left out, so that it is written.
    first = min(max(-d.h.origin, 0), d.h.taps - 1);
    end = max(min(end, d.h.source_size - d.h.origin), first + 1);
  }
};

// The chunk of a plane where a segment begins. Those that do not exist read another's pixels.
__device__ __forceinline__ int32_t chunk_of_segment(const Bands& d, int32_t segment) {
  const int32_t strip = d.segments_across.quotient(segment);
  return strip < d.strips_at_once ? strip * d.row_chunks + segment - strip * d.across : 0;
}

template <class T, int kTaps, bool kFused>
__global__ void __launch_bounds__(kBandThreads, bands_resident(kTaps))
    depthwise_bands_kernel(const __grid_constant__ BandsArguments<T> args) {
#if __CUDA_ARCH__ >= 800
  using Results = BandsResults<T, kFused>;
  const Bands& d = args.shape;
  extern __shared__ __align__(128) unsigned char depthwise_bands_shared[];
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const BandsBlock block(d, static_cast<int32_t>(blockIdx.x));

  const uint32_t planes = shared_address(depthwise_bands_shared);
  const uint32_t raw = planes + 2 * kSetBytes, raw_bytes = kRawRows * 32 * d.pairs;
  BandsRows<T> rows(args, block, raw);
  Results results(args, block, depthwise_bands_shared + 2 * kSetBytes + raw_bytes);
  const BandFilters<T> filters = {
      .at = raw + raw_bytes + 2 * Results::kBytes, .taps_w = d.w.taps, .weights = kTaps * d.w.taps};

  const bool is_finite = bring_band_filters<T>(args, block.channel, filters.at);
  const bool finite_weights = __syncthreads_and(is_finite) != 0;
  const BandIterations iterations(d, finite_weights);
  rows.skip(args, iterations.first);
  const auto send = [&](int32_t row) {
    if (row < iterations.end) rows.send(args);
    commit_copies();
  };
  const auto move = [&](int32_t row) {
    wait_for_groups<kRawRows - 2>();
    rows.move(args, planes + (row & 1) * kSetBytes);
  };
  // One row is moved while the others are on their way.
  for (int32_t i = 0; i < kRawRows - 1; ++i) send(iterations.first + i);

  BandSums<T, kTaps> sums[kWarpChannels];
#pragma unroll
  for (int i = 0; i < kWarpChannels; ++i) {
    sums[i].begin(filters, warp * kWarpChannels + i, lane);
  }
  // What a lane names to load_matrices(); both channels of a warp are of the same eight.
  const uint32_t own_chunk =
      planes + warp * (kWarpChannels * kPlaneBytes) +
      place_of_chunk(chunk_of_segment(d, lane % 16) + lane / 16, warp * kWarpChannels);

  move(iterations.first);
  __syncthreads();
  for (int32_t i = iterations.first; i < iterations.last; ++i) {
    const uint32_t parity = i & 1;
    const int32_t output = i - (kTaps - 1);
    send(i + kRawRows - 1);
    if (i + 1 < iterations.end) move(i + 1);
    const bool has_row = i < iterations.end;
    float done[kWarpChannels][4];
#pragma unroll
    for (int j = 0; j < kWarpChannels; ++j) {
      uint32_t pixels[4] = {};
      if (has_row) load_matrices(own_chunk + parity * kSetBytes + j * kPlaneBytes, pixels);
      sums[j].multiply(pixels, done[j]);
    }
    if (output >= 0) results.put(parity, warp, lane, done);
    if (output >= 1) results.write(args, parity ^ 1, output - 1);
    __syncthreads();
  }
  results.write(args, (iterations.last - 1) & 1, d.strip_rows - 1);
  const uint32_t seen = results.rows_with_nan();
  if (__syncthreads_or(static_cast<int>(seen)) != 0) {
    repair_outputs<T, kTaps, kFused>(
        args, filters, *reinterpret_cast<BandsRepairList*>(depthwise_bands_shared), seen);
  }
#endif
}

}  // namespace haloconv::depthwise
