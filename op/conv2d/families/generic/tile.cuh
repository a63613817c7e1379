// A block's tile of the product A (m, k) * B (k, n): shared memory, threads, inner loop.
//
// A thread owns TM x TN results, as groups of 16 bytes spread evenly along each axis, so that its
// 16-byte reads of both operands are free of bank conflicts. Rows of the operands are padded
// by 16 bytes: neighbouring threads may then also write neighbouring reduction steps.
#pragma once

#include "conv2d/device/accumulator.cuh"

namespace haloconv::generic {

template <class Acc_, int M, int N, int K, int TM, int TN>
struct Tile {
  using Acc = Acc_;
  using Vec = Vector<Acc>;
  static constexpr int kM = M, kN = N, kK = K, kTM = TM, kTN = TN;
  static constexpr int kThreads = (M / TM) * (N / TN);
  // Blocks that share a multiprocessor: at most 128 registers a thread, 255 for 64-bit sums.
  static constexpr int kBlocks = (sizeof(Acc) == 8 ? 256 : 512) / kThreads;
  static constexpr int kVec = Vec::kSize;
  static constexpr int kPitchA = M + kVec, kPitchB = N + kVec;
  static_assert(TM % kVec == 0 && TN % kVec == 0 && kThreads % 32 == 0);

  // A warp covers kWarpM x kWarpN threads of the tile.
  static constexpr int kWarpM = M / TM < 4 ? M / TM : 4;
  static constexpr int kWarpN = 32 / kWarpM;
  static constexpr int kWarpsN = N / TN / kWarpN;
  static_assert(kWarpsN * kWarpN * TN == N);

  struct Shared {
    alignas(16) Acc a[2][K][kPitchA];
    alignas(16) Acc b[2][K][kPitchB];
  };

  // The thread's place: its first row is kVec * y, its first column kVec * x.
  int y, x;
  Acc acc[TM][TN];

  __device__ __forceinline__ Tile() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    y = warp / kWarpsN * kWarpM + lane / kWarpN;
    x = warp % kWarpsN * kWarpN + lane % kWarpN;
    clear();
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) acc[i][j] = Acc(0);
    }
  }

  // The thread's rows (kRows), or its columns, move up by one.
  template <bool kRows>
  __device__ __forceinline__ void drop_first() {
#pragma unroll
    for (int i = kRows ? 1 : 0; i < TM; ++i) {
#pragma unroll
      for (int j = kRows ? 0 : 1; j < TN; ++j)
        acc[kRows ? i - 1 : i][kRows ? j : j - 1] = acc[i][j];
    }
  }

  // Tile row of the thread's i-th row, tile column of its j-th column.
  __device__ __forceinline__ int row(int i) const {
    return i / kVec * (M * kVec / TM) + y * kVec + i % kVec;
  }
  __device__ __forceinline__ int column(int j) const {
    return j / kVec * (N * kVec / TN) + x * kVec + j % kVec;
  }

  __device__ __forceinline__ void multiply(const Shared& shared, int stage) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      Vec a[TM / kVec], b[TN / kVec];
#pragma unroll
      for (int i = 0; i < TM / kVec; ++i) {
        a[i] = *reinterpret_cast<const Vec*>(&shared.a[stage][k][row(i * kVec)]);
      }
#pragma unroll
      for (int j = 0; j < TN / kVec; ++j) {
        b[j] = *reinterpret_cast<const Vec*>(&shared.b[stage][k][column(j * kVec)]);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          acc[i][j] += a[i / kVec].values[i % kVec] * b[j / kVec].values[j % kVec];
        }
      }
    }
  }
};

// Hides a value from the compiler, which would otherwise compute all addresses that depend on it
// before the main loop and keep them in registers.
__device__ __forceinline__ void hide(int& value) { asm volatile("" : "+r"(value)); }

// The double-buffered loop over a tile's reduction. A loader has prepare(step): some threads write
// the step's sites to shared memory; fetch(step): global memory to registers; commit(stage):
// registers to shared memory. after_step(step) may move the accumulators out.
template <class Tile, class LoaderA, class LoaderB, class AfterStep>
__device__ __forceinline__ void run_mainloop(Tile& tile, typename Tile::Shared& shared,
                                             LoaderA& load_a, LoaderB& load_b, int32_t steps,
                                             AfterStep after_step) {
  if (steps == 0) return;
  const auto prepare = [&](int32_t step) {
    load_a.prepare(step);
    load_b.prepare(step);
  };
  const auto commit = [&](int stage) {
    load_a.commit(shared.a[stage]);
    load_b.commit(shared.b[stage]);
  };
  prepare(0);
  __syncthreads();
  load_a.fetch(0);
  load_b.fetch(0);
  if (steps > 1) prepare(1);
  commit(0);
  __syncthreads();
  for (int32_t step = 0; step < steps; ++step) {
    const int stage = step % 2;
    const bool more = step + 1 < steps;
    if (more) {
      load_a.fetch(step + 1);
      load_b.fetch(step + 1);
    }
    tile.multiply(shared, stage);
    if (more) commit(stage ^ 1);
    if (step + 2 < steps) prepare(step + 2);
    __syncthreads();
    after_step(step);
  }
}

}  // namespace haloconv::generic
