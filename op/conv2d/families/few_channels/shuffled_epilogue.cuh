// Writes complete rows of the destination from the registers. A column's sum has products of its
// own pixel and of the two before it. A thread has two neighbouring pixels in each of two
// instructions, so what it lacks comes from the thread with the two before them, by shuffles; from
// the warp before through shared memory; and from the band before through the fringe.
//
// Column i of a pair of pixels (p, p + 1) is
//   p:     products[p][2] + products[p - 1][1] + products[p - 2][0]
//   p + 1: products[p + 1][2] + products[p][1] + products[p - 1][0]
// with products[pixel][tap]. So the pair before hands on two numbers for each channel.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/few_channels/mainloop.cuh"
#include "cuda/group_barrier.cuh"

namespace haloconv::few_channels {

template <class T, int kRowTaps, int kColumns>
class ShuffledEpilogue {
 public:
  using Math = Mainloop<T, kRowTaps, kColumns>;
  static_assert(kColumns == kShuffledTaps * kShuffledChannels);

  __device__ __forceinline__ ShuffledEpilogue(const Arguments& args, const SharedMemory& shared,
                                              int32_t thread, bool has_zeros)
      : args_(args),
        shared_(shared),
        channel_(thread % 4 * 2),
        lane_(thread % 32),
        warp_(__shfl_sync(~0u, thread / 32, 0)),  // the compiler sees it is uniform
        group_(warp_ / kGroupWarps),
        pixel_(pixel_of_thread(thread)),
        handed_(shared_address(shared.staged()) + thread / 32 * (kHandedBytes / kWarps) +
                thread % 4 * kThreadBytes),
        bias_(shared_address(shared.bias()) + channel_ * 4),
        is_first_(pixel_ == 0),
        has_zeros_(has_zeros) {}

  // Begins the rows of a band of an image.
  __device__ __forceinline__ void begin(int32_t band, int32_t image) {
    const int32_t x = band * args_.band_columns + pixel_;
    to_ = static_cast<T*>(args_.destination) + image * args_.destination_n +
          channel_ * args_.destination_c + x;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      columns_[j] =
          pixel_ + j * kWarpPixels < args_.band_columns ? args_.width - (x + j * kWarpPixels) : 0;
    }
    // The band's last pair hands its numbers to the next band, whose first pair has the rest.
    const int32_t last = args_.band_columns - 2 - pixel_;
    last_ =
        band < args_.bands - 1 && last % kWarpPixels == 0 && last >= 0 ? last / kWarpPixels : -1;
    if (last_ > 1) last_ = -1;
    has_rest_ = is_first_ && band > 0;
    has_fringe_ = __any_sync(~0u, last_ >= 0 || has_rest_);
    const Column rest = {.side = last_ >= 0 ? 0 : 1, .boundary = last_ >= 0 ? band : band - 1};
    fringe_ = args_.fringe + args_.fringe_at(rest, image, 0) + channel_ * 2;
    // Before a row's first pixels are zeros, whose products with infinities are NaN.
    if (is_first_) {
      float before[kHandedChannels][2] = {};
      if (band == 0 && has_zeros_) {
#pragma unroll
        for (int i = 0; i < kHandedChannels; ++i) {
          const float* const zeros = shared_.zeros() + channel_of(i);
          before[i][0] = zeros[0] + zeros[kShuffledChannels];
          before[i][1] = zeros[0];
        }
      }
#pragma unroll
      for (int parity = 0; parity < 2; ++parity) hand(handed_ + parity * kHandedBytes, before);
    }
  }

  // Writes the sums of the last row of taps. All math threads call it. Columns that are not
  // complete are written too: whole sectors, of which add_fringe.cu then writes these columns
  // again.
  __device__ __forceinline__ void take(const typename Math::Sums& sums, int32_t row) {
    const uint32_t from = handed_ + parity_ * kHandedBytes;
    hand_on(sums[1], from + kHandedBytes / kWarps);
    float* const fringe_row = fringe_ + row * args_.fringe_row(0, 0, 1);
    if (has_fringe_) {
#pragma unroll
      for (int i = 0; i < kHandedChannels; ++i) {
        float last[2][2];
        of_next(sums[0], i, last[0]);
        of_next(sums[1], i, last[1]);
        const bool is_second = last_ == 1;
        store_global(fringe_row + 2 * after_first(i),
                     {is_second ? last[1][0] : last[0][0], is_second ? last[1][1] : last[0][1]},
                     last_ >= 0 && channel_of(i) < args_.rows);
      }
    }
    group_barrier_sync<kGroupThreads>(1 + group_);
    if (warp_ == kGroupWarps) mbarrier_wait(shared_.is_staged(), parity_);
    T* const row_to = to_ + row * args_.destination_h;
#pragma unroll
    for (int i = 0; i < kHandedChannels; ++i) {
      float results[2][2];
      add(sums, i, from, results);
      const bool exists = channel_of(i) < args_.rows;
      if (has_fringe_) {
        store_global(fringe_row + 2 * after_first(i), results[0], has_rest_ && exists);
      }
      store(row_to + after_first(i) * args_.destination_c, results, exists);
    }
    if (warp_ == kGroupWarps) cuda::ptx::mbarrier_arrive(shared_.is_read());
    parity_ ^= 1;
  }

  // Nothing is left to write after take().
  __device__ __forceinline__ void write_some() const {}
  __device__ __forceinline__ void write_all() const {}

 private:
  static constexpr int kWarps = kMathThreads / 32, kGroupWarps = kWarps / 2;
  static constexpr int kGroupThreads = kGroupWarps * 32;
  static constexpr int kHandedChannels = kShuffledChannels / 4;  // of a thread
  static constexpr int kThreadBytes = kHandedChannels * 2 * 4;

  // A thread's i'th channel, and how far it is after the first.
  __device__ __forceinline__ int32_t channel_of(int i) const { return channel_ + after_first(i); }
  static __device__ constexpr int after_first(int i) { return i / 2 * 8 + i % 2; }
  static __device__ __forceinline__ float product(const float (&sums)[Math::kWidth / 2], int tap,
                                                  int i, int pixel) {
    return sums[(kRowTaps - 1) * Math::kRowValues + (tap * 2 + i / 2) * 4 + pixel * 2 + i % 2];
  }

  // The warp's last pair hands to the next warp what that one's first pair lacks. The first group's
  // last warp is up to a row ahead of the second group's first.
  __device__ __forceinline__ void hand_on(const float (&sums)[Math::kWidth / 2],
                                          uint32_t to) const {
    if (warp_ == kGroupWarps - 1) mbarrier_wait(shared_.is_read(), parity_ ^ 1);
#pragma unroll
    for (int i = 0; i < kHandedChannels; ++i) {
      float next[2];
      of_next(sums, i, next);
      if (lane_ >= 28 && warp_ < kWarps - 1) store_shared(to + i * 8, next);
    }
    if (warp_ == kGroupWarps - 1) cuda::ptx::mbarrier_arrive(shared_.is_staged());
  }

  // What the pair after a thread's lacks.
  static __device__ __forceinline__ void of_next(const float (&sums)[Math::kWidth / 2], int i,
                                                 float (&to)[2]) {
    to[0] = product(sums, 1, i, 1) + product(sums, 0, i, 0);
    to[1] = product(sums, 0, i, 1);
  }

  // A channel's sums.
  __device__ __forceinline__ void add(const typename Math::Sums& sums, int i, uint32_t from,
                                      float (&results)[2][2]) const {
    float handed[2][2], of_warp[2], bias[1];
    of_next(sums[0], i, handed[0]);
    of_next(sums[1], i, handed[1]);
    load_shared(from + i * 8, of_warp);
    load_shared(bias_ + 4 * after_first(i), bias);
    const int32_t lane = (lane_ + 28) % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float first = __shfl_sync(~0u, handed[0][k], lane);
      // Lanes 28 to 31 hand the first instruction's numbers to lanes 0 to 3 for the second's.
      const float second = __shfl_sync(~0u, lane_ >= 28 ? handed[0][k] : handed[1][k], lane);
      results[0][k] = (lane_ < 4 ? of_warp[k] : first) + bias[0];
      results[1][k] = second + bias[0];
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      results[j][0] += product(sums[j], 2, i, 0);
      results[j][1] += product(sums[j], 2, i, 1) + product(sums[j], 1, i, 0);
    }
  }

  __device__ __forceinline__ void store(T* to, const float (&results)[2][2], bool exists) const {
#pragma unroll
    for (int j = 0; j < 2; ++j, to += kWarpPixels) {
      if (args_.writes_pairs) {
        Element<T>::template store<2>(to, results[j], columns_[j] >= 2 && exists);
      } else {
        Element<T>::template store<1>(to, {results[j][0]}, columns_[j] >= 1 && exists);
        Element<T>::template store<1>(to + 1, {results[j][1]}, columns_[j] >= 2 && exists);
      }
    }
  }

  static __device__ __forceinline__ void hand(uint32_t to, const float (&v)[kHandedChannels][2]) {
#pragma unroll
    for (int i = 0; i < kHandedChannels; ++i) store_shared(to + i * 8, v[i]);
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t channel_, lane_, warp_, group_, pixel_;
  const uint32_t handed_;  // what the warp before hands to this thread's first pair
  const uint32_t bias_;
  const bool is_first_;
  const bool has_zeros_;
  int32_t columns_[2] = {};  // that exist from a pair on, by instruction
  int32_t last_ = -1;        // the instruction whose pair is the band's last
  bool has_fringe_ = false;  // some lane of the warp has the band's first or last pair
  bool has_rest_ = false;    // this thread has the first columns, of which the fringe has a part
  T* to_ = nullptr;
  float* fringe_ = nullptr;
  uint32_t parity_ = 0;
};

}  // namespace haloconv::few_channels
