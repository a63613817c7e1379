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
// Rows that are not finite get marks, and are gone down once more in the end (bands_nonfinite.cuh).
#pragma once

#include "conv2d/families/depthwise/bands_few.cuh"
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
template <class T, bool kFused>
struct BandsShared {
  uint32_t planes;
  uint32_t marks;  // not 0 where a row is not finite, or one of several
  uint32_t raw;
  uint32_t cells;  // of BandsResults
  uint32_t filters;

  __device__ __forceinline__ BandsShared(const BandsArguments<T>& args, unsigned char* shared)
      : planes(shared_address(shared)),
        marks(planes + 2 * kSetBytes),
        raw(marks + kBandMarkBytes),
        cells(raw + kRawRows * args.row_bytes),
        filters(cells + 2 * BandsResults<T, kFused>::kBytes) {}
};

// A block's way down rows of the source, from `first` on.
template <class T, int kTaps, bool kFused>
class BandsDescent {
 public:
  __device__ __forceinline__ BandsDescent(const BandsArguments<T>& args, int32_t block_index,
                                          const BandsShared<T, kFused>& shared,
                                          const BandIterations& iterations, int32_t first)
      : args_(args),
        iterations_(iterations),
        block_(args.shape, block_index),
        marks_(shared.marks),
        planes_(shared.planes),
        rows_(args, block_, shared.raw),
        results_(args, block_, shared.cells) {
    const int32_t chunk = chunk_of_segment(args.shape, lane() % 16) + lane() / 16;
    // What a lane names to load_matrices(); both channels of a warp are of the same eight.
    own_chunk_ = kept(planes_ + warp() * (kWarpChannels * kPlaneBytes) +
                      place_of_chunk(chunk, warp() * kWarpChannels));
    rows_.skip(args, first);
    results_.skip(args, max(first - (kTaps - 1), 0));
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
      send(i + kRawRows - 1);
      if (i + 1 < iterations_.end) move(i + 1);
      float done[kWarpChannels][4];
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) {
        uint32_t pixels[4] = {};
        if (i < iterations_.end) load(i, j, pixels);
        sums[j].multiply(pixels, done[j]);
      }
      end_row<false>(i, kTaps - 1, done);
    }
    write_last<false>(iterations_.last);
  }

  // From a marked row on, down to where no marked one adds to the outputs under way. Writes those
  // that are not finite. Returns the row after the last. `marked`: bits of marks.
  __device__ __forceinline__ int32_t
  run_codes(const int32_t first, uint32_t marked, bool with_marks,
            BandSums<__nv_bfloat16, kTaps> (&sums)[kWarpChannels]) {
    const int32_t first_put = max(first, kTaps - 1);
#pragma unroll 1
    for (int32_t i = first; i < first + kRawRows - 1; ++i) send_codes(i, marked);
    move_codes(first, marked, with_marks);
    __syncthreads();
#pragma unroll
    for (auto& of_channel : sums) of_channel.clear();
    int32_t i = first;
    for (int32_t under_way = 0; i < iterations_.last; ++i, --under_way) {
      const bool wanted = is_wanted(i, marked);
      if (wanted) under_way = kTaps;
      if (under_way == 0) break;
      send_codes(i + kRawRows - 1, marked);
      move_codes(i + 1, marked, with_marks);
      float done[kWarpChannels][4];
#pragma unroll
      for (int j = 0; j < kWarpChannels; ++j) {
        uint32_t codes[4] = {};
        if (wanted) load(i, j, codes);
        if (with_marks) {
          sums[j].multiply_marked(codes, done[j]);
        } else {
          sums[j].multiply(codes, done[j]);
        }
      }
      end_row<true>(i, first_put, done);
    }
    write_last<true>(i);
    return i;
  }

 private:
  __device__ __forceinline__ uint32_t planes_of(int32_t row) const {
    return planes_ + (row & 1) * kSetBytes;
  }
  __device__ __forceinline__ void send(int32_t row) {
    if (row < iterations_.end) rows_.send(args_);
    commit_copies();
  }
  __device__ __forceinline__ void move(int32_t row) {
    wait_for_groups<kRawRows - 2>();
    rows_.move(args_, planes_of(row), marks_ + (row >> args_.shape.mark_shift) * 4);
  }

  // The same of codes, if the row is wanted.
  __device__ __forceinline__ bool is_wanted(int32_t row, uint32_t marked) const {
    return row < iterations_.end && (marked >> (row >> args_.shape.mark_shift) & 1) != 0;
  }
  __device__ __forceinline__ void send_codes(int32_t row, uint32_t marked) {
    is_wanted(row, marked) ? rows_.send(args_) : rows_.leave_out_sent(args_);
    commit_copies();
  }
  __device__ __forceinline__ void move_codes(int32_t row, uint32_t marked, bool with_marks) {
    wait_for_groups<kRawRows - 2>();
    is_wanted(row, marked) ? rows_.move_codes(args_, planes_of(row), with_marks)
                           : rows_.leave_out_moved(args_);
  }

  __device__ __forceinline__ void load(int32_t row, int j, uint32_t (&pixels)[4]) const {
    load_matrices(own_chunk_ + (row & 1) * kSetBytes + j * kPlaneBytes, pixels);
  }
  // first_put: the first row after which outputs are complete.
  template <bool kCodes>
  __device__ __forceinline__ void end_row(int32_t i, int32_t first_put,
                                          const float (&done)[kWarpChannels][4]) {
    if (i >= first_put) {
      if constexpr (kCodes) {
        results_.put_codes(i & 1, done);
      } else {
        results_.put(i & 1, done);
      }
    }
    if (i > first_put) results_.template write<kCodes>(args_, (i & 1) ^ 1, i - kTaps);
    __syncthreads();
  }
  // The outputs that row `end` - 1 has completed.
  template <bool kCodes>
  __device__ __forceinline__ void write_last(int32_t end) {
    results_.template write<kCodes>(args_, (end - 1) & 1, end - kTaps);
  }

  const BandsArguments<T>& args_;
  const BandIterations iterations_;
  const BandsBlock block_;
  const uint32_t marks_, planes_;
  uint32_t own_chunk_;
  BandsRows<T> rows_;
  BandsResults<T, kFused> results_;
};

// Writes what infinities and NaN of the marked rows make of outputs, by a list of them. Whether it
// has done so: there may be too many.
template <class T, int kTaps, bool kFused>
__device__ __forceinline__ bool write_few(const BandsArguments<T>& args, const BandsBlock& block,
                                          const BandsShared<T, kFused>& shared,
                                          const BandFilters& filters, uint32_t marked) {
  if (__popc(static_cast<int32_t>(marked)) > kFewMarks) return false;
  auto* const count = static_cast<uint32_t*>(__cvta_shared_to_generic(shared.marks));
  NonfiniteList list(count, static_cast<NonfiniteValue*>(__cvta_shared_to_generic(shared.planes)));
  if (threadIdx.x == 0) *count = 0;
  __syncthreads();
  list.find(args, BandsRows<T>(args, block, shared.raw), marked);
  __syncthreads();
  if (!list.has_all()) return false;
  list.template write_outputs<kFused, T, kTaps>(args, block, filters);
  return true;
}

// The same by codes, down all of these rows.
template <class T, int kTaps, bool kFused>
__device__ __forceinline__ void write_any(const BandsArguments<T>& args, uint32_t block_index,
                                          const BandsShared<T, kFused>& shared,
                                          const BandFilters& filters, bool finite_weights,
                                          uint32_t marked) {
  using Descent = BandsDescent<T, kTaps, kFused>;
  BandSums<__nv_bfloat16, kTaps> sums[kWarpChannels];
#pragma unroll
  for (int j = 0; j < kWarpChannels; ++j) {
    sums[j].begin(filters, Descent::warp() * kWarpChannels + j, Descent::lane());
    sums[j].template become_codes<T>(Descent::lane(), filters.taps_w);
  }
  // Weights that are not finite meet all rows.
  if (!finite_weights) marked = ~0u;
  const BandIterations iterations(args.shape, finite_weights);
  for (int32_t i = iterations.first; i < iterations.end;) {
    const uint32_t left = marked >> (i >> args.shape.mark_shift);
    if (left == 0) return;
    // The first row of the next mark, unless it is amid this one's.
    if ((left & 1) == 0) {
      i = ((i >> args.shape.mark_shift) + __ffs(static_cast<int32_t>(left)) - 1)
          << args.shape.mark_shift;
    }
    i = Descent(args, static_cast<int32_t>(hidden(block_index)), shared, iterations, i)
            .run_codes(i, marked, !finite_weights, sums);
  }
}

template <class T, int kTaps, bool kFused>
__global__ void __launch_bounds__(kBandThreads, bands_resident(kTaps))
    depthwise_bands_kernel(const __grid_constant__ BandsArguments<T> args) {
#if __CUDA_ARCH__ >= 800
  using Descent = BandsDescent<T, kTaps, kFused>;
  const Bands& d = args.shape;
  extern __shared__ __align__(128) unsigned char depthwise_bands_shared[];
  const BandsShared<T, kFused> shared(args, depthwise_bands_shared);
  const auto block_index = static_cast<int32_t>(blockIdx.x);
  const BandFilters filters = {
      .at = shared.filters, .taps_w = d.w.taps, .weights = kTaps * d.w.taps};
  if (threadIdx.x < kBandMarks) store_shared_bits(shared.marks + threadIdx.x * 4, 0u);
  const bool has_finite =
      bring_band_filters<T>(args, BandsBlock(d, block_index).channel, filters.at);
  const bool finite_weights = __syncthreads_and(has_finite) != 0;
  const BandIterations iterations(d, finite_weights);
  Descent descent(args, block_index, shared, iterations, iterations.first);
  descent.send_first();
  BandSums<T, kTaps> sums[kWarpChannels];
#pragma unroll
  for (int j = 0; j < kWarpChannels; ++j) {
    sums[j].begin(filters, Descent::warp() * kWarpChannels + j, Descent::lane());
  }
  descent.run(sums);

  uint32_t mark;
  load_shared_bits(shared.marks + Descent::lane() * 4, mark);
  const uint32_t marked = __ballot_sync(~0u, mark != 0);
  if (marked == 0) return;
  // Each works out anew where it is, so that none has registers of another.
  const auto finite = __syncthreads_and(is_finite_filter<T>(filters)) != 0;
  if (finite && write_few<T, kTaps>(args, BandsBlock(d, static_cast<int32_t>(hidden(block_index))),
                                    shared, filters, marked)) {
    return;
  }
  write_any<T, kTaps>(args, block_index, shared, filters, finite, marked);
#endif
}

}  // namespace haloconv::depthwise
