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
#pragma once

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

// Adds a row to a warp's sums tap by tap, after the matrix instruction has added nothing: where
// there is an infinity or a NaN, whose products with a band's zeros would be NaN. A function, so
// that what it needs takes no registers from all else.
template <class T, int kTaps>
__device__ __noinline__ void add_taps(const Bands& d, BandFilters<T> filters, uint32_t planes,
                                      float* sums) {
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
#pragma unroll 1
  for (int32_t i = 0; i < kWarpChannels * 4; ++i) {
    const int32_t place = i % 4, channel = warp * kWarpChannels + i / 4;
    const int32_t row = chunk_of_segment(d, lane / 4 + place / 2 * 8);
    const uint32_t plane = planes + channel * kPlaneBytes;
    float* const own = sums + i / 4 * (kTaps * 4) + place;
    float of_row[kTaps];
#pragma unroll
    for (int j = 0; j < kTaps; ++j) of_row[j] = own[j * 4];
#pragma unroll 1
    for (int32_t s = 0; s < filters.taps_w; ++s) {
      const int32_t column = lane % 4 * 2 + place % 2 + s;
      uint16_t bits;
      load_shared_bits(plane + place_of_chunk(row + column / 8, channel) + column % 8 * 2, bits);
      const auto pixel = static_cast<float>(of_bits<T>(bits));
      bool all_nan = true;
#pragma unroll
      for (int j = 0; j < kTaps; ++j) {
        of_row[j] += pixel * filters.weight(channel, kTaps - 1 - j, s);
        all_nan = all_nan && isnan(of_row[j]);
      }
      if (__all_sync(~0u, all_nan)) break;  // as they remain
    }
#pragma unroll
    for (int j = 0; j < kTaps; ++j) own[j * 4] = of_row[j];
  }
}

template <class T, int kTaps, bool kFused>
__global__ void __launch_bounds__(kBandThreads, bands_resident(kTaps))
    depthwise_bands_kernel(const __grid_constant__ BandsArguments<T> args) {
#if __CUDA_ARCH__ >= 800
  using Results = BandsResults<T, kFused>;
  using Sums = BandSums<T, kTaps>;
  const Bands& d = args.shape;
  extern __shared__ __align__(128) unsigned char depthwise_bands_shared[];
  __shared__ int32_t not_finite[2];  // the row in a set of planes that holds infinities or NaN
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const BandsBlock block(d, static_cast<int32_t>(blockIdx.x));

  const uint32_t planes = shared_address(depthwise_bands_shared);
  const uint32_t raw = planes + 2 * kSetBytes, raw_bytes = kRawRows * 32 * d.pairs;
  BandsRows<T> rows(args, block, raw);
  Results results(args, block, depthwise_bands_shared + 2 * kSetBytes + raw_bytes);
  const BandFilters<T> filters = {
      .at = raw + raw_bytes + 2 * Results::kBytes, .taps_w = d.w.taps, .weights = kTaps * d.w.taps};

  if (threadIdx.x < 2) not_finite[threadIdx.x] = -1;
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
    if (!rows.move(args, planes + (row & 1) * kSetBytes)) not_finite[row & 1] = row;
  };
  // One row is moved while the others are on their way.
  for (int32_t i = 0; i < kRawRows - 1; ++i) send(iterations.first + i);

  Sums sums[kWarpChannels];
#pragma unroll
  for (int i = 0; i < kWarpChannels; ++i) {
    sums[i].begin(filters, warp * kWarpChannels + i, lane, finite_weights);
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
    const bool by_taps = has_row && (!finite_weights || not_finite[parity] == i);
    float done[kWarpChannels][4];
#pragma unroll
    for (int j = 0; j < kWarpChannels; ++j) {
      uint32_t pixels[4] = {};
      if (has_row && !by_taps) {
        load_matrices(own_chunk + parity * kSetBytes + j * kPlaneBytes, pixels);
      }
      sums[j].multiply(pixels, done[j]);
    }
    if (by_taps) {
      float all[kWarpChannels][Sums::kSums];
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) sums[j].get(done[j], all[j]);
      add_taps<T, kTaps>(d, filters, planes + parity * kSetBytes, all[0]);
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) sums[j].set(done[j], all[j]);
    }
    if (output >= 0) results.put(parity, warp, lane, done);
    if (output >= 1) results.write(args, parity ^ 1, output - 1);
    __syncthreads();
  }
  results.write(args, (iterations.last - 1) & 1, d.strip_rows - 1);
#endif
}

}  // namespace haloconv::depthwise
