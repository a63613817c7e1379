// The results of a math warpgroup's tile: from the accumulators through shared memory, which turns
// them from the instruction's layout to rows, to global memory; bias, and what is fused with the
// convolution, on the way.
//
// Each warp has 16 of the tile's channels and does its work alone, 8 channels at a time. A lane
// writes kVector neighbouring pixels at once, as many as the output's alignment allows. With
// splits, the same warps of a cluster's blocks add their sums: each takes a share of the 8 channels
// and reads the others' staged sums, always in the blocks' order.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/bounds.cuh"
#include "conv2d/families/halo/mend.cuh"
#include "conv2d/families/halo/residual.cuh"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::sm90 {

template <class T, int kInstructions, int kWidth, bool kSplit, bool kFused, bool kFolds>
class Epilogue : Results<T, kInstructions * kWidth> {
  static_assert(!(kSplit && kFused), "an activation of a part of a sum is none of the sum");
  static_assert(!kFused || std::is_same_v<T, float>, "a residual is copied as it lies");
  static constexpr int kPixels = kInstructions * kWidth;
  static constexpr int kBytes = sizeof(T);

  using Base = Results<T, kPixels>;
  template <int kVector, int kMost = 4>
  using LanePixels = typename Base::template LanePixels<kVector, kMost>;
  using Base::args_;
  using Base::first_of;
  using Base::first_output;
  using Base::first_row;
  using Base::group_;
  using Base::has;
  using Base::kPitch;
  using Base::lane_;
  using Base::locate;
  using Base::staging_;
  using Base::warp_;

 public:
  // `round`: of the barriers between splits, kept from tile to tile.
  __device__ __forceinline__ Epilogue(const Arguments& args, const SharedMemory& shared,
                                      int32_t split, uint32_t& round)
      : Base(args, shared), shared_(shared), split_(split), round_(round) {}

  // Calls after_sums() when it needs neither sums nor terms any longer.
  template <class Body>
  __device__ __forceinline__ void run(const float (&sums)[kInstructions][kWidth / 2],
                                      const RowTerms<T, kFused>& terms, const TilePosition& tile,
                                      Body after_sums) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      begin_staging();
      if constexpr (kFused) {
        if (half == 1) Residual<kPixels>(args_, shared_).begin(half, tile);
        wait_for_copies();
        __syncwarp();
      }
      if (args_.strips) {
        stage_strips(sums, half, terms);
      } else {
        stage_rows(sums, half, terms);
      }
      if constexpr (kFolds) Mend<T, kPixels, kFused>(args_, shared_, split_).run(half, tile, terms);
      end_staging();
      if (half == 1) after_sums();
      if (args_.vector >= 4) {
        write<4>(half, tile);
      } else if (args_.vector == 2) {
        write<2>(half, tile);
      } else {
        write<1>(half, tile);
      }
      finish_staging();
    }
  }

 private:
  template <int kVector>
  __device__ __forceinline__ void write(int half, const TilePosition& tile) const {
    if (kFused && !only_bounds(args_.fusion.activation.kind)) {
      write_half_fused<kVector>(half, tile);
    } else {
      write_half<kVector>(half, tile);
    }
  }

  // The 8 staged channels, or this block's share of them. Some are read before the first is
  // written, which hides how long that takes; more than that would only be more instructions to
  // fetch.
  template <int kVector>
  __device__ __forceinline__ void write_half(int half, const TilePosition& tile) const {
    if (!kSplit && args_.one_line) {
      write_line<kVector>(half, tile);
    } else {
      write_pixels<kVector>(half, tile);
    }
  }

  // The same of a tile that is a piece of one row. Lanes begin where the memory's sectors of 32
  // bytes do, not where the piece does: a sector is written at once, but for those at the piece's
  // ends.
  template <int kVector>
  __device__ __forceinline__ void write_line(int half, const TilePosition& tile) const {
    constexpr int kAtOnce = 2;
    constexpr int kCount = kPixels / (32 * kVector) + 1;
    const FoldedRows::Row at = first_row(tile, half);
    const typename Base::Output first = first_output(tile);
    const int32_t rows = has(tile, at, first) ? args_.rows - at.channel : 0;
    const auto pixels = static_cast<uint32_t>(min(kPixels, args_.w.outputs - first.q));
    T* line = first_of(destination(), tile, at);
    const Bounds bounds(args_.fusion.activation);
    uint32_t staged = staging_;
#pragma unroll 1
    for (int32_t row = 0; row < 8; row += kAtOnce) {
      float values[kAtOnce][kCount][kVector];
      int32_t before[kAtOnce] = {};  // pixels from the sector's first to the piece's
      // As an unsigned number, a pixel before the first is beyond the last.
      const auto inside = [&](int j, int i) {
        return static_cast<uint32_t>((i * 32 + lane_) * kVector - before[j]) < pixels;
      };
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j, staged += kPitch * 4) {
        const T* const to = line + j * args_.destination_c;
        before[j] =
            static_cast<int32_t>(reinterpret_cast<uintptr_t>(to) / sizeof(T) % (32 / sizeof(T)));
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          int32_t pixel = (i * 32 + lane_) * kVector - before[j];
          if (i == 0) pixel = max(pixel, 0);
          if ((i + 1) * 32 * kVector > kPixels) pixel = min(pixel, kPixels - kVector);
          load_shared(staged + pixel * 4, values[j][i]);
        }
      }
      if constexpr (kFused) bounds.apply(values);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j, line += args_.destination_c) {
        T* const to = at_bytes(line - before[j], lane_ * kVector * kBytes);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          store(to + i * 32 * kVector, values[j][i], row + j < rows && inside(j, i));
        }
      }
    }
  }

  template <int kVector>
  __device__ __forceinline__ void write_pixels(int half, const TilePosition& tile) const {
    constexpr int kCount = LanePixels<kVector>::kCount;
    constexpr int kAtOnce = kSplit ? 1 : kFused ? 2 : 4;  // as registers allow
    const int32_t share = kSplit ? 8 / args_.splits : 8;
    const int32_t first = kSplit ? split_ * share : 0;
    FoldedRows::Row at = first_row(tile, half);
    at.channel += first;
    const int32_t rows = min(share, args_.rows - at.channel);
    const int64_t channel_step = args_.destination_c;
    const Bounds bounds(args_.fusion.activation);
#pragma unroll 1
    for (int part = 0; part < LanePixels<kVector>::kTotal; part += kCount) {
      LanePixels<kVector> pixels;
      locate(tile, half, part, pixels);
      T* channel = first_of(destination(), tile, at);
      uint32_t staged = staging_ + first * kPitch * 4;
#pragma unroll 1
      for (int32_t row = 0; row < (kSplit ? rows : 8); row += kAtOnce) {
        float values[kAtOnce][kCount][kVector];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j, staged += kPitch * 4) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            load_sums(staged + pixels.staged(((part + i) * 32 + lane_) * kVector), values[j][i]);
          }
        }
        if constexpr (kFused) bounds.apply(values);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j, channel += channel_step) {
          if (row + j >= rows) break;
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            store(at_bytes(channel, pixels.offset[i]), values[j][i], pixels.offset[i] >= 0);
          }
        }
      }
    }
  }

  // The 8 staged channels with an activation.
  template <int kVector>
  __device__ __forceinline__ void write_half_fused(int half, const TilePosition& tile) const {
    using Pixels = LanePixels<kVector, 4 / kVector>;
    constexpr int kCount = Pixels::kCount;
    constexpr int kAtOnce = 4;
    const FoldedRows::Row at = first_row(tile, half);
    const int32_t rows = min(8, args_.rows - at.channel);
    const int64_t channel_step = args_.destination_c;
#pragma unroll 1
    for (int part = 0; part < Pixels::kTotal; part += kCount) {
      Pixels pixels;
      locate(tile, half, part, pixels);
      T* channel = first_of(destination(), tile, at);
      uint32_t staged = staging_;
#pragma unroll 1
      for (int32_t row = 0; row < 8; row += kAtOnce) {
        float values[kAtOnce][kCount][kVector];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j, staged += kPitch * 4) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            load_sums(staged + pixels.staged(((part + i) * 32 + lane_) * kVector), values[j][i]);
          }
        }
        // A loop, so that each activation's code is there once: the values come to the first row.
#pragma unroll 1
        for (int j = 0; j < kAtOnce; ++j, channel += channel_step) {
          activate(values[0]);
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            store(at_bytes(channel, pixels.offset[i]), values[0][i],
                  row + j < rows && pixels.offset[i] >= 0);
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
#pragma unroll
              for (int k = 1; k < kAtOnce; ++k) values[k - 1][i][v] = values[k][i][v];
            }
          }
        }
      }
    }
  }

  template <int kVector>
  static __device__ __forceinline__ void store(T* at, const float (&values)[kVector], bool inside) {
    Element<T>::store(at, values, inside);
  }
  __device__ __forceinline__ T* destination() const { return static_cast<T*>(args_.destination); }

  template <int kCount, int kVector>
  __device__ __forceinline__ void activate(float (&values)[kCount][kVector]) const {
    with_activation(args_.fusion.activation, [&](auto activation) {
#pragma unroll
      for (auto& vector : values) {
#pragma unroll
        for (float& value : vector) value = activation(value);
      }
    });
  }

  // 8 channels of the accumulators go to shared memory, the tile's rows one after the other: those
  // of rows lane / 4 (half 0) or lane / 4 + 8 of the warp's 16.
  __device__ __forceinline__ void stage_strips(const float (&sums)[kInstructions][kWidth / 2],
                                               int half, const RowTerms<T, kFused>& terms) {
    const uint32_t staged = staging_ + (lane_ / 4 * kPitch + lane_ % 4 * 2) * 4;
    const int32_t across = args_.group_columns / 8;
    const int32_t step = args_.group_columns * 4;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      stage_pairs(sums[i], half, terms, staged + i / across * (kWidth / 8) * step + i % across * 32,
                  step);
    }
  }

  __device__ __forceinline__ void stage_rows(const float (&sums)[kInstructions][kWidth / 2],
                                             int half, const RowTerms<T, kFused>& terms) {
    const uint32_t staged = staging_ + (lane_ / 4 * kPitch + lane_ % 4 * 2) * 4;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      stage_pairs(sums[i], half, terms, staged + i * kWidth * 4, 32);
    }
  }

  // An instruction's pairs of neighbours, `step` bytes apart. Adds what has been copied there;
  // where there is no output nothing has, and whatever lies there is added and not written.
  __device__ __forceinline__ void stage_pairs(const float (&sums)[kWidth / 2], int half,
                                              const RowTerms<T, kFused>& terms, uint32_t at,
                                              int32_t step) const {
    constexpr int kPairs = kWidth / 8;
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

  template <int kVector>
  __device__ __forceinline__ void load_sums(uint32_t staged, float (&sums)[kVector]) const {
    if constexpr (kSplit) {
      load_cluster(peer_address(staged, 0), sums);
#pragma unroll 1
      for (int32_t block = 1; block < args_.splits; ++block) {
        float part[kVector];
        load_cluster(peer_address(staged, block), part);
#pragma unroll
        for (int j = 0; j < kVector; ++j) sums[j] += part[j];
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

  const SharedMemory& shared_;
  const int32_t split_;
  uint32_t& round_;
};

}  // namespace haloconv::sm90
