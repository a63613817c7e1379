// Rows of a cluster's two blocks, which have half of the source channels each. A block writes the
// columns of its warpgroups' first instruction, and sends its sums of the second to the other
// block. What it receives it adds a little later, while its tensor cores compute the next row.
#pragma once

#include "conv2d/families/row_strips/epilogue.cuh"
#include "cuda/cluster.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/store_async.cuh"

namespace haloconv::row_strips {

// Both warpgroups use the same place in shared memory, by turns: the first one's row, the second
// one's, the first one's next.
template <class T>
class ExchangingEpilogue {
 public:
  __device__ __forceinline__ ExchangingEpilogue(const Arguments& args, const SharedMemory& shared,
                                                int32_t thread, int32_t rank)
      : shared_(shared),
        epilogue_(args, shared, thread, rank),
        group_(__shfl_sync(~0u, thread / 128, 0)),
        expects_(thread % 128 == 0),
        here_(shared_address(shared.exchange()) + thread % 128 * 16),
        there_(shared_address_at(here_, rank ^ 1)),
        sent_there_(shared_address_at(shared_address(shared.is_sent(group_)), rank ^ 1)),
        read_there_(shared_address_at(shared_address(shared.is_read(group_)), rank ^ 1)) {}

  __device__ __forceinline__ void begin(int32_t band, int32_t image) {
    epilogue_.begin(band, image);
  }

  // After finish().
  __device__ __forceinline__ void take(const Sums& sums, int32_t row) {
    constexpr int kAt = (kRowTaps - 1) * kRowSums;
    // Until the other group's sums have been read there: the first group comes after those of the
    // row before, the second one after those of this row.
    mbarrier_wait(shared_.is_read(group_ ^ 1), parity_ ^ (group_ == 0 ? 1 : 0));
#pragma unroll
    for (int i = 0; i < kRowSums; i += 4) {
      store_async(
          there_ + i / 4 * kApart,
          {sums[1][kAt + i], sums[1][kAt + i + 1], sums[1][kAt + i + 2], sums[1][kAt + i + 3]},
          sent_there_);
    }
    if (expects_) {
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, shared_.is_sent(group_),
                                           kExchangeBytes);
    }
#pragma unroll
    for (int i = 0; i < kRowSums; ++i) own_[i] = sums[0][kAt + i];
    row_ = row;
  }

  // Writes the row that was taken, if it is not written yet.
  __device__ __forceinline__ void finish() {
    if (row_ < 0) return;
    mbarrier_wait(shared_.is_sent(group_), parity_);
#pragma unroll
    for (int i = 0; i < kRowSums; i += 4) {
      float others[4];
      load_shared(here_ + i / 4 * kApart, others);
#pragma unroll
      for (int j = 0; j < 4; ++j) own_[i + j] += others[j];
    }
    arrive_at(read_there_);
    parity_ ^= 1;
    epilogue_.write(own_, 0, row_);
    row_ = -1;
  }

 private:
  static constexpr int kApart = 128 * 16;  // bytes from four sums of a thread to the next four

  const SharedMemory& shared_;
  Epilogue<T> epilogue_;
  const int32_t group_;
  const bool expects_;
  const uint32_t here_, there_, sent_there_, read_there_;
  RowSums own_ = {};
  int32_t row_ = -1;
  uint32_t parity_ = 0;
};

// Of a block that has all source channels.
template <class T>
class WholeEpilogue {
 public:
  __device__ __forceinline__ WholeEpilogue(const Arguments& args, const SharedMemory& shared,
                                           int32_t thread, int32_t rank)
      : epilogue_(args, shared, thread, rank) {}

  __device__ __forceinline__ void begin(int32_t band, int32_t image) {
    epilogue_.begin(band, image);
  }

  __device__ __forceinline__ void take(const Sums& sums, int32_t row) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      RowSums complete;
#pragma unroll
      for (int j = 0; j < kRowSums; ++j) complete[j] = sums[i][(kRowTaps - 1) * kRowSums + j];
      epilogue_.write(complete, i, row);
    }
  }

  __device__ __forceinline__ void finish() const {}

 private:
  Epilogue<T> epilogue_;
};

}  // namespace haloconv::row_strips
