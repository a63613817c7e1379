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
// Planes have finite values alone. What infinities and NaN make of outputs is added to their sums
// (bands_nonfinite.cuh).
#pragma once

#include "conv2d/families/depthwise/band_filters.cuh"
#include "conv2d/families/depthwise/bands_nonfinite.cuh"
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

// What lies where in a block's shared memory.
template <class T, int kTaps, bool kFused>
struct BandsShared {
  uint32_t planes;
  uint32_t nonfinite;  // of BandsNonfinite
  uint32_t raw;
  uint32_t cells;  // of BandsResults
  uint32_t filters;

  __device__ __forceinline__ BandsShared(const BandsArguments<T>& args, unsigned char* shared)
      : planes(shared_address(shared)),
        nonfinite(planes + 2 * kSetBytes),
        raw(nonfinite + band_nonfinite_bytes(kTaps)),
        cells(raw + kRawRows * args.row_bytes),
        filters(cells + 2 * BandsResults<T, kFused>::kBytes) {}
};

// A block's way down rows of the source.
template <class T, int kTaps, bool kFused>
class BandsDescent {
 public:
  __device__ __forceinline__ BandsDescent(const BandsArguments<T>& args, int32_t block_index,
                                          const BandsShared<T, kTaps, kFused>& shared,
                                          const BandFilters& filters,
                                          const BandIterations& iterations)
      : args_(args),
        filters_(filters),
        iterations_(iterations),
        block_(args.shape, block_index),
        nonfinite_(shared.nonfinite),
        planes_(shared.planes),
        rows_(args, block_, iterations.first, iterations.end, shared.raw),
        results_(args, block_, shared.cells) {
    const int32_t chunk = chunk_of_segment(args.shape, lane() % 16) + lane() / 16;
    // What a lane names to load_matrices(); both channels of a warp are of the same eight.
    own_chunk_ = kept(planes_ + warp() * (kWarpChannels * kPlaneBytes) +
                      place_of_chunk(chunk, warp() * kWarpChannels));
  }

  static __device__ __forceinline__ int32_t warp() {
    return static_cast<int32_t>(threadIdx.x) / 32;
  }
  static __device__ __forceinline__ int32_t lane() {
    return static_cast<int32_t>(threadIdx.x) % 32;
  }

  // Sends for the first rows, all that can be on their way while another one is moved.
  __device__ __forceinline__ void send_first() {
    for (int32_t i = 0; i < kRawRows - 1; ++i) send(iterations_.first + i);
  }

  // Down all rows, when the first ones have been sent for.
  __device__ __forceinline__ void run(BandSums<T, kTaps> (&sums)[kWarpChannels]) {
    move(iterations_.first);
    __syncthreads();
    for (int32_t i = iterations_.first; i < iterations_.last; ++i) {
      const uint32_t nonfinite_until = nonfinite_.until();  // on its way meanwhile
      send(i + kRawRows - 1);
      if (i + 1 < iterations_.end) move(i + 1);
      if (static_cast<int32_t>(hidden(nonfinite_until)) > i) [[unlikely]] {
        const auto segment = static_cast<int32_t>(hidden(threadIdx.x) % 16);
        nonfinite_.add(i, nonfinite_until, chunk_of_segment(args_.shape, segment), filters_,
                       sums[0].oldest(), sums[1].oldest());
      }
      float done[kWarpChannels][4];
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) {
        uint32_t pixels[4] = {};
        if (i < iterations_.end) load(i, j, pixels);
        sums[j].multiply(pixels, done[j]);
      }
      end_row(i, done);
    }
    wait_for_groups<0>();  // for rows after the last, which are zeros
    write(iterations_.last);
  }

 private:
  __device__ __forceinline__ uint32_t planes_of(int32_t row) const {
    return planes_ + (row & 1) * kSetBytes;
  }
  __device__ __forceinline__ void send(int32_t row) {
    rows_.send(args_, row);
    commit_copies();
  }
  __device__ __forceinline__ void move(int32_t row) {
    wait_for_groups<kRawRows - 2>();
    rows_.move(args_, planes_of(row), nonfinite_, row);
  }

  __device__ __forceinline__ void load(int32_t row, int j, uint32_t (&pixels)[4]) const {
    load_matrices(own_chunk_ + (row & 1) * kSetBytes + j * kPlaneBytes, pixels);
  }
  __device__ __forceinline__ void end_row(int32_t i, const float (&done)[kWarpChannels][4]) {
    if (i >= kTaps - 1) results_.put(i & 1, done);
    if (i > kTaps - 1) write(i);
    __syncthreads();
  }
  // The outputs that the row before `row` has completed.
  __device__ __forceinline__ void write(int32_t row) {
    results_.write(args_, (row & 1) ^ 1, row - kTaps);
  }

  const BandsArguments<T>& args_;
  const BandFilters filters_;
  const BandIterations iterations_;
  const BandsBlock block_;
  const BandsNonfinite<kTaps> nonfinite_;
  const uint32_t planes_;
  uint32_t own_chunk_;
  BandsRows<T> rows_;
  BandsResults<T, kFused> results_;
};

template <class T, int kTaps, bool kFused>
__global__ void __launch_bounds__(kBandThreads, bands_resident(kTaps))
    depthwise_bands_kernel(const __grid_constant__ BandsArguments<T> args) {
#if __CUDA_ARCH__ >= 800
  using Descent = BandsDescent<T, kTaps, kFused>;
  const Bands& d = args.shape;
  extern __shared__ __align__(128) unsigned char depthwise_bands_shared[];
  const BandsShared<T, kTaps, kFused> shared(args, depthwise_bands_shared);
  const auto block_index = static_cast<int32_t>(blockIdx.x);
  const BandFilters filters = {
      .at = shared.filters, .taps_w = d.w.taps, .weights = kTaps * d.w.taps};
  BandsNonfinite<kTaps>(shared.nonfinite).clear();
  const bool has_finite =
      bring_band_filters<T>(args, BandsBlock(d, block_index).channel, filters.at);
  const bool finite_weights = __syncthreads_and(has_finite) != 0;
  Descent descent(args, block_index, shared, filters, BandIterations(d, finite_weights));
  descent.send_first();
  BandSums<T, kTaps> sums[kWarpChannels];
#pragma unroll
  for (int j = 0; j < kWarpChannels; ++j) {
    sums[j].begin(filters, Descent::warp() * kWarpChannels + j, Descent::lane());
  }
  descent.run(sums);
#endif
}

}  // namespace haloconv::depthwise
