// The sums that a math warp has staged in shared memory: when its lanes may write and read them
// and, with splits, how those of a cluster's blocks are added.
//
// With splits, the same warps of the cluster's blocks meet twice for each half of their channels:
//
//   begin_staging()    all have read the half before: its place is free
//   ... each stages its own sums ...
//   end_staging()      all have staged
//   ... each reads its share of the channels from all blocks, in the blocks' order ...
//   finish_staging()   tells the others that it has read
#pragma once

#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::halo {

template <class T, int kPixels, bool kSplit>
class StagedSums : protected Results<T, kPixels> {
 protected:
  using Base = Results<T, kPixels>;
  using Base::args_;
  using Base::group_;
  using Base::kPitch;
  using Base::lane_;
  using Base::staging_;
  using Base::warp_;

  // `round`: of the barriers between splits, kept from tile to tile.
  __device__ __forceinline__ StagedSums(const Arguments& args, const SharedMemory& shared,
                                        int32_t split, uint32_t& round)
      : Base(args, shared), shared_(shared), split_(split), round_(round) {}

  // Half 0 or 1 of the warp's 16 channels goes to shared memory, the tile's rows one after the
  // other: this lane's accumulators of row lane / 4 (half 0) or lane / 4 + 8.
  template <int kInstructions, int kSums, bool kFused>
  __device__ __forceinline__ void stage(const float (&sums)[kInstructions][kSums], int half,
                                        const RowTerms<T, kFused>& terms) {
    if (args_.patches) {
      stage_patches(sums, half, terms);
    } else {
      stage_rows(sums, half, terms);
    }
  }

  template <int kVector>
  __device__ __forceinline__ void load_sums(uint32_t staged, float (&sums)[kVector]) const {
    if constexpr (kSplit) {
      load_cluster(peer_address(staged, 0), sums);
#pragma unroll 1
      for (int32_t block = 1; block < args_.splits; ++block) {
        float partial[kVector];
        load_cluster(peer_address(staged, block), partial);
#pragma unroll
        for (int j = 0; j < kVector; ++j) sums[j] += partial[j];
      }
    } else {
      load_shared(staged, sums);
    }
  }

  // Around the staged channels: they are free to be written; written; read by all.
  __device__ __forceinline__ void begin_staging() const {
    if constexpr (kSplit) mbarrier_wait_cluster(shared_.drained(math_warp()), ~round_ & 1);
  }
  __device__ __forceinline__ void end_staging() const {
    if constexpr (kSplit) {
      arrive_in_cluster(shared_.staged(math_warp()), 0);
      mbarrier_wait_cluster(shared_.staged(math_warp()), round_ & 1);
    } else {
      __syncwarp();
    }
  }
  __device__ __forceinline__ void finish_staging() {
    if constexpr (kSplit) {
      arrive_in_cluster(shared_.drained(math_warp()), 1);
      ++round_;
    } else {
      __syncwarp();
    }
  }

  // Tells this warp's peers, itself among them, when all its lanes have come. They meet at a
  // barrier in shared memory, though a __syncwarp would do: compute-sanitizer's racecheck does not
  // know that what one lane then tells the cluster comes after what the others did before.
  __device__ __forceinline__ void arrive_in_cluster(uint64_t* barrier, uint32_t parity) const {
    uint64_t* const met = shared_.met(math_warp());
    cuda::ptx::mbarrier_arrive(met);
    mbarrier_wait(met, parity);
    if (lane_ < args_.splits) mbarrier_arrive_at(peer_address(shared_address(barrier), lane_));
  }

  __device__ __forceinline__ int32_t math_warp() const { return group_ * 4 + warp_; }

 private:
  template <int kInstructions, int kSums, bool kFused>
  __device__ __forceinline__ void stage_patches(const float (&sums)[kInstructions][kSums], int half,
                                                const RowTerms<T, kFused>& terms) {
    constexpr int kWidth = 2 * kSums;
    const uint32_t staged = staging_ + (lane_ / 4 * kPitch + lane_ % 4 * 2) * 4;
    const int32_t across = args_.group_columns / 8;
    const int32_t step = args_.group_columns * 4;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      stage_pairs(sums[i], half, terms, staged + i / across * (kWidth / 8) * step + i % across * 32,
                  step);
    }
  }

  template <int kInstructions, int kSums, bool kFused>
  __device__ __forceinline__ void stage_rows(const float (&sums)[kInstructions][kSums], int half,
                                             const RowTerms<T, kFused>& terms) {
    constexpr int kWidth = 2 * kSums;
    const uint32_t staged = staging_ + (lane_ / 4 * kPitch + lane_ % 4 * 2) * 4;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      stage_pairs(sums[i], half, terms, staged + i * kWidth * 4, 32);
    }
  }

  // An instruction's pairs of neighbours, `step` bytes apart. Adds the residual that has been
  // copied there; where there is no output nothing has, and whatever lies there is added and not
  // written.
  template <int kSums, bool kFused>
  __device__ __forceinline__ void stage_pairs(const float (&sums)[kSums], int half,
                                              const RowTerms<T, kFused>& terms, uint32_t at,
                                              int32_t step) const {
    constexpr int kPairs = kSums / 4;
    constexpr int kAtOnce = 8;  // read before the first is written
    const auto pair_of = [&](int j, float (&pair)[2]) {
      pair[0] = terms.apply(sums[j * 4 + half * 2], half);
      pair[1] = terms.apply(sums[j * 4 + half * 2 + 1], half);
    };
    if (kFused && args_.fusion.residual != nullptr) {
#pragma unroll
      for (int first = 0; first < kPairs; first += kAtOnce) {
        float added[kAtOnce][2], pair[2];
#pragma unroll
        for (int j = 0; j < kAtOnce && first + j < kPairs; ++j) {
          load_shared(at + (first + j) * step, added[j]);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce && first + j < kPairs; ++j) {
          pair_of(first + j, pair);
          pair[0] += added[j][0];
          pair[1] += added[j][1];
          store_shared(at + (first + j) * step, pair);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        float pair[2];
        pair_of(j, pair);
        store_shared(at + j * step, pair);
      }
    }
  }

 protected:
  const SharedMemory& shared_;
  const int32_t split_;
  uint32_t& round_;
};

}  // namespace haloconv::halo
