// fprop and dgrad of groups with one channel, channels innermost, by band matrices: bands.h.
//
// What a block does with each row of the source, of all its strips at once. Rows that are not
// finite take a second loop, which counts what they add (bands_nonfinite.cuh):
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

// Whether the pixels of a warp's lanes are.
template <class T>
__device__ __forceinline__ bool is_finite(const uint32_t (&pixels)[4]) {
  uint32_t probe = 0;
#pragma unroll
  for (const uint32_t word : pixels) probe = times_zero_plus<T>(word, probe);
  return __all_sync(~0u, probe == 0) != 0;
}

// What lies where in a block's shared memory.
template <class T, bool kFused>
struct BandsShared {
  uint32_t planes;
  uint32_t flags;  // of each set of planes the last row that is not finite
  uint32_t raw;
  uint32_t cells;  // of BandsResults
  uint32_t filters;

  __device__ __forceinline__ BandsShared(const BandsArguments<T>& args, unsigned char* shared)
      : planes(shared_address(shared)),
        flags(planes + 2 * kSetBytes),
        raw(flags + kBandFlagBytes),
        cells(raw + kRawRows * args.row_bytes),
        filters(cells + 2 * BandsResults<T, kFused>::kBytes) {}
};

// A block's way down its rows of the source.
template <class T, int kTaps, bool kFused>
class BandsDescent {
 public:
  using Sums = BandSums<T, kTaps>;

  // From row i on. has_started: its pixels have come, and those after it have been sent for. begun:
  // what a row begins with has been done for it, too.
  __device__ __forceinline__ BandsDescent(const BandsArguments<T>& args, int32_t block_index,
                                          const BandsShared<T, kFused>& shared,
                                          const BandIterations& iterations, int32_t i,
                                          bool has_started, bool begun)
      : args_(args),
        iterations_(iterations),
        block_(args.shape, block_index),
        planes_(shared.planes),
        flags_(shared.flags),
        rows_(args, block_, shared.raw),
        results_(args, block_, shared.cells) {
    const int32_t chunk = chunk_of_segment(args.shape, lane() % 16) + lane() / 16;
    // What a lane names to load_matrices(); both channels of a warp are of the same eight.
    own_chunk_ = kept(planes_ + warp() * (kWarpChannels * kPlaneBytes) +
                      place_of_chunk(chunk, warp() * kWarpChannels));
    rows_.skip(args, iterations.first);
    if (!has_started) return;
    const int32_t rows = i - iterations.first + (begun ? 1 : 0);
    rows_.go_on(args, rows + kRawRows - 1, rows + 1);
    results_.skip(args, max(i - kTaps, 0));
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
  // When they have come.
  __device__ __forceinline__ void move_first() { move(iterations_.first); }

  // From row i on, until one that is not finite; its number, or the one after the last.
  __device__ __forceinline__ int32_t run_finite(int32_t i, Sums (&sums)[kWarpChannels]) {
    for (; i < iterations_.last; ++i) {
      const int32_t nonfinite_row = flag_of(i);
      begin_row(i);
      if (nonfinite_row == i) return i;
      float done[kWarpChannels][4];
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) {
        uint32_t pixels[4] = {};
        if (i < iterations_.end) load(i, j, pixels);
        sums[j].multiply(pixels, done[j]);
      }
      end_row(i, done);
    }
    write_last();
    return i;
  }

  // From row i on, which the other loop has begun or not, until a row that it can take: one that is
  // finite, as the warp's weights are, unless few are left. Its number, or the one after the last.
  // `nonfinite_weights`: as Sums::begin() says.
  __device__ __forceinline__ int32_t
  run_nonfinite(int32_t i, bool has_begun, const uint32_t (&nonfinite_weights)[kWarpChannels],
                Sums (&sums)[kWarpChannels]) {
    const bool finite_weights = (nonfinite_weights[0] | nonfinite_weights[1]) == 0;
    uint32_t nan_rows[kWarpChannels] = {};
    for (; i < iterations_.last; ++i, has_begun = false) {
      const bool finite_row = flag_of(i) != i;
      if (finite_row && finite_weights && iterations_.last - i > kFewRows) return i;
      if (!has_begun) begin_row(i);
      float done[kWarpChannels][4];
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) {
        nan_rows[j] <<= 1;  // each is met by the next of the filter's rows
        uint32_t pixels[4] = {};
        if (i < iterations_.end) load(i, j, pixels);
        const bool has_nonfinite_pixels = !finite_row && !is_finite<T>(pixels);
        if (has_nonfinite_pixels || nonfinite_weights[j] != 0) {
#pragma unroll
          for (uint32_t& word : pixels) {
            word = nonfinite_weights[j] == 0 ? word & ~nonfinite_mask<T>(word) : 0;
          }
        }
        sums[j].multiply(pixels, nan_rows[j], done[j]);
        if (has_nonfinite_pixels) {
          load(i, j, pixels);
          sums[j].add_nonfinite_pixels(pixels, lane(), args_.shape.w.taps, nan_rows[j], done[j]);
        }
        if (nonfinite_weights[j] != 0) {
          load(i, j, pixels);
          sums[j].add_nonfinite_weights(pixels, nonfinite_weights[j], done[j]);
        }
      }
      end_row(i, done);
    }
    write_last();
    return i;
  }

 private:
  static constexpr int32_t kFewRows = 12;  // take no longer here than a descent to begin

  __device__ __forceinline__ void send(int32_t row) {
    if (row < iterations_.end) rows_.send(args_);
    commit_copies();
  }
  __device__ __forceinline__ void move(int32_t row) {
    wait_for_groups<kRawRows - 2>();
    rows_.move(args_, planes_ + (row & 1) * kSetBytes, row, flags_ + (row & 1) * 4);
  }
  // The last row of row i's set of planes that is not finite.
  __device__ __forceinline__ int32_t flag_of(int32_t i) const {
    uint32_t flag;
    load_shared_bits(flags_ + (i & 1) * 4, flag);
    return static_cast<int32_t>(flag);
  }

  __device__ __forceinline__ void begin_row(int32_t i) {
    send(i + kRawRows - 1);
    if (i + 1 < iterations_.end) move(i + 1);
  }
  __device__ __forceinline__ void load(int32_t i, int j, uint32_t (&pixels)[4]) const {
    load_matrices(own_chunk_ + (i & 1) * kSetBytes + j * kPlaneBytes, pixels);
  }
  __device__ __forceinline__ void end_row(int32_t i, const float (&done)[kWarpChannels][4]) {
    const int32_t output = i - (kTaps - 1);
    if (output >= 0) results_.put(i & 1, done);
    if (output >= 1) results_.write(args_, (i & 1) ^ 1, output - 1);
    __syncthreads();
  }
  __device__ __forceinline__ void write_last() {
    results_.write(args_, (iterations_.last - 1) & 1, args_.shape.strip_rows - 1);
  }

  const BandsArguments<T>& args_;
  const BandIterations iterations_;
  const BandsBlock block_;
  const uint32_t flags_, planes_;
  uint32_t own_chunk_;
  BandsRows<T> rows_;
  BandsResults<T, kFused> results_;
};

template <class T, int kTaps, bool kFused>
__global__ void __launch_bounds__(kBandThreads, bands_resident(kTaps))
    depthwise_bands_kernel(const __grid_constant__ BandsArguments<T> args) {
#if __CUDA_ARCH__ >= 800
  using Descent = BandsDescent<T, kTaps, kFused>;
  using Sums = BandSums<T, kTaps>;
  const Bands& d = args.shape;
  extern __shared__ __align__(128) unsigned char depthwise_bands_shared[];
  const BandsShared<T, kFused> shared(args, depthwise_bands_shared);
  const auto block_index = static_cast<int32_t>(blockIdx.x);
  const BandFilters<T> filters = {
      .at = shared.filters, .taps_w = d.w.taps, .weights = kTaps * d.w.taps};
  if (threadIdx.x < 2) store_shared_bits(shared.flags + threadIdx.x * 4, ~0u);  // no row
  const bool is_finite_filter =
      bring_band_filters<T>(args, BandsBlock(d, block_index).channel, filters.at);
  const bool finite_weights = __syncthreads_and(is_finite_filter) != 0;
  const BandIterations iterations(d, finite_weights);

  Sums sums[kWarpChannels];
  uint32_t nonfinite_weights[kWarpChannels] = {};
  bool has_started = false;
  for (int32_t i = iterations.first; i < iterations.last;) {
    // Each loop works out anew where it is, so that it has no registers of the other.
    const auto descent = [&](bool begun) {
      return Descent(args, static_cast<int32_t>(hidden(block_index)), shared, iterations, i,
                     has_started, begun);
    };
    Descent finite = descent(false);
    if (!has_started) {
      finite.send_first();
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) {
        nonfinite_weights[j] = sums[j].begin(filters, Descent::warp() * kWarpChannels + j,
                                             Descent::lane(), finite_weights);
      }
      finite.move_first();
      __syncthreads();
      has_started = true;
    }
    const bool can_begin = (nonfinite_weights[0] | nonfinite_weights[1]) == 0;
    if (can_begin) i = finite.run_finite(i, sums);
    if (i == iterations.last) return;
    i = descent(can_begin).run_nonfinite(i, can_begin, nonfinite_weights, sums);
  }
#endif
}

}  // namespace haloconv::depthwise
