// Forward passes in TF32 from an input whose rows are innermost and a filter, both as they lie.
//
// The matrix instruction takes its first operand from registers: threads read it from a window of
// the input in shared memory, where neighbouring threads have neighbouring pixels, so that nothing
// is transposed. Its second is the filter, whose depth is innermost in memory already. One warp
// brings both by the copy engine, which rounds them to TF32.
#pragma once

#include <cuda.h>
#include <cuda/ptx>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/unpacked/arguments.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/registers.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_registers.cuh"

namespace haloconv::unpacked {

// Registers of a thread in a block that has a multiprocessor for itself. It starts with 168 for
// each thread, and never gets more than 3 * 168 in all.
inline constexpr int kMathRegisters = 232, kLoadRegisters = 40;

// One of a thread's two pixels of each 64.
__device__ __forceinline__ int32_t pixel_in_64(const Arguments& args, int32_t warp, int32_t lane,
                                               int32_t half) {
  return warp * 16 + lane / 4 * args.lane_pixels + half * args.half_pixels;
}

// A block's share of a tile.
template <int kPixels, int kChannels>
struct Item {
  int32_t split, first_channel;
  int32_t image, row, column;  // of the output, the tile's first
  int32_t first_stage, stages;

  __device__ __forceinline__ Item(const Arguments& args, int32_t number) {
    split = args.split_tiles.quotient(number);
    int32_t tile = number - split * args.split_tiles.divisor;
    const auto take = [&](const FastDiv& count) {
      const int32_t rest = count.quotient(tile);
      const int32_t taken = tile - rest * count.divisor;
      tile = rest;
      return taken;
    };
    first_channel = take(args.channel_tiles) * kChannels;
    column = take(args.column_tiles) << args.log_columns;
    row = take(args.row_tiles) << args.log_rows;
    image = tile * (kPixels >> (args.log_columns + args.log_rows));
    first_stage = split * args.split_stages;
    stages = min(args.stages - first_stage, args.split_stages);
  }
};

struct SharedMemory {
  uint64_t *filter_full, *filter_empty, *window_full, *window_empty;
  uint32_t filters, windows, table;

  __device__ __forceinline__ SharedMemory(const Arguments& args, uint32_t base, uint64_t* barriers,
                                          int32_t filter_bytes)
      : filter_full(barriers),
        filter_empty(barriers + kMaxStages),
        window_full(barriers + 2 * kMaxStages),
        window_empty(barriers + 3 * kMaxStages),
        filters((base + kAlignment - 1) / kAlignment * kAlignment),
        windows(filters + args.filter_stages * filter_bytes),
        table(windows + args.window_stages * args.window_bytes) {}
};

__device__ __forceinline__ void arrive(uint64_t* barrier) {
  cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared,
                             barrier);
}

// One thread brings, in the order in which they are read, the windows and stages of all items.
template <int kPixels, int kChannels>
__device__ __forceinline__ void produce(const Arguments& args, const CUtensorMap& source,
                                        const CUtensorMap& filter, const SharedMemory& shared,
                                        uint32_t box_bytes) {
  constexpr uint32_t kFilterBytes = filter_stage_bytes({kPixels, kChannels});
  RingPosition filters, windows;
  const int32_t all = args.tiles * args.splits;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < all;
       number += static_cast<int32_t>(gridDim.x)) {
    const Item<kPixels, kChannels> item(args, number);
    const int32_t h = item.row * args.step_h + args.first_h;
    const int32_t w = item.column * args.step_w + args.first_w;
    const int32_t first_step = item.first_stage * kStageSteps;
    int32_t window = first_step / args.window_steps;
    int32_t steps = window * args.window_steps;  // before those of the next window
    for (int32_t stage = 0; stage < item.stages; ++stage) {
      const int32_t step = first_step + stage * kStageSteps;
      const auto bring_windows = [&](int32_t end) {
        for (; steps < end; steps += args.window_steps, ++window) {
          uint64_t* const full = &shared.window_full[windows.stage];
          mbarrier_wait(&shared.window_empty[windows.stage], windows.parity ^ 1);
          expect_bytes(full, box_bytes);
          copy_box(shared.windows + windows.stage * args.window_bytes, &source,
                   shared_address_of(full), w, h, window * args.window_channels, item.image);
          windows.advance(args.window_stages);
        }
      };
      bring_windows(step + 1);
      uint64_t* const full = &shared.filter_full[filters.stage];
      mbarrier_wait(&shared.filter_empty[filters.stage], filters.parity ^ 1);
      expect_bytes(full, kFilterBytes);
      copy_box(shared.filters + filters.stage * kFilterBytes, &filter, shared_address_of(full),
               (item.first_stage + stage) * kStageDepth, item.first_channel);
      filters.advance(args.filter_stages);
      bring_windows(step + kStageSteps);
    }
  }
}

// The math warps' side of the windows: a step's first operands.
template <int kBlocks>
class Windows {
 public:
  using Operands = uint4[kBlocks];

  __device__ __forceinline__ Windows(const Arguments& args, const SharedMemory& shared,
                                     int32_t group, int32_t warp, int32_t lane)
      : args_(args), shared_(shared), lane_(lane), table_(shared.table + lane % 4 * 8) {
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      const int32_t pixel = (group * kBlocks + i / 2) * 64 + pixel_in_64(args, warp, lane, i % 2);
      const int32_t column = pixel & ((1 << args.log_columns) - 1);
      const int32_t row = pixel >> args.log_columns & ((1 << args.log_rows) - 1);
      const int32_t image = pixel >> (args.log_columns + args.log_rows);
      pixel_at_[i] = args.lead_bytes + image * args.image_bytes + row * args.row_bytes +
                     column * args.column_bytes;
    }
  }

  // Loads the operands of an item's first step.
  __device__ __forceinline__ void begin(int32_t first_step, Operands& operands) {
    step_ = first_step % args_.window_steps;
    wait();
    load(operands);
  }

  // Loads those of the next one.
  __device__ __forceinline__ void next(Operands& operands) {
    if (++step_ == args_.window_steps) {
      step_ = 0;
      release();
      wait();
    }
    load(operands);
  }

  // Gives back the window that was read last.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (lane_ == 0) arrive(&shared_.window_empty[ring_.stage]);
    ring_.advance(args_.window_stages);
  }

 private:
  __device__ __forceinline__ void wait() {
    mbarrier_wait(&shared_.window_full[ring_.stage], ring_.parity);
    window_ = shared_.windows + ring_.stage * args_.window_bytes;
  }

  __device__ __forceinline__ void load(Operands& operands) {
    uint32_t at[2];
    load_shared_bits(table_ + step_ * (4 * 8), at);
    at[0] += window_;
    at[1] += window_;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      operands[i].x = value(at[0] + pixel_at_[2 * i]);
      operands[i].y = value(at[0] + pixel_at_[2 * i + 1]);
      operands[i].z = value(at[1] + pixel_at_[2 * i]);
      operands[i].w = value(at[1] + pixel_at_[2 * i + 1]);
    }
  }

  static __device__ __forceinline__ uint32_t value(uint32_t at) {
    uint32_t bits[1];
    load_shared_bits(at, bits);
    return bits[0];
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t lane_;
  const uint32_t table_;  // this lane's part of its first step
  uint32_t pixel_at_[2 * kBlocks];
  RingPosition ring_;
  int32_t step_ = 0;
  uint32_t window_ = 0;
};

// A descriptor of the filter's rows of 128 bytes, which are swizzled, eight of them after each
// other.
__device__ __forceinline__ uint64_t filter_operand(uint32_t at) {
  return uint64_t{1} << 62 | uint64_t{8 * 128 / 16} << 32 | (at >> 4 & 0x3fff);
}

// An item's sums over its stages. Operands are loaded three steps ahead, to the registers of the
// step before, whose instructions are done.
template <int kBlocks, int kChannels>
__device__ __forceinline__ void multiply(const SharedMemory& shared, Windows<kBlocks>& windows,
                                         RingPosition& filters, int32_t filter_stages,
                                         int32_t first_stage, int32_t stages, int32_t lane,
                                         float (&sums)[kBlocks][kChannels / 2]) {
  constexpr uint32_t kFilterBytes = filter_stage_bytes({128, kChannels});
  constexpr int kAhead = kStageSteps - 1;
  typename Windows<kBlocks>::Operands operands[kStageSteps];
  windows.begin(first_stage * kStageSteps, operands[0]);
#pragma unroll
  for (int step = 1; step < kAhead; ++step) windows.next(operands[step]);
#pragma unroll
  for (auto& words : operands[kAhead]) words = make_uint4(0, 0, 0, 0);
  int32_t last = -1;
  do {
    mbarrier_wait(&shared.filter_full[filters.stage], filters.parity);
    const uint64_t filter = filter_operand(shared.filters + filters.stage * kFilterBytes);
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step) {
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        wgmma_registers<kChannels>(sums[i], operands[step][i],
                                   filter + step * (kStepDepth * 4 / 16));
      }
      wgmma_commit();
      wgmma_wait<1>();
      auto& before = operands[(step + kAhead) % kStageSteps];
#pragma unroll
      for (auto& words : before) wgmma_settle(words);
      if (step == 0 && last >= 0 && lane == 0) arrive(&shared.filter_empty[last]);
      if (step == 0 || stages > 1) windows.next(before);
    }
    last = filters.stage;
    filters.advance(filter_stages);
  } while (--stages > 0);
  wgmma_wait<0>();
#pragma unroll
  for (auto& step : operands) {
#pragma unroll
    for (auto& words : step) wgmma_settle(words);
  }
  if (lane == 0) arrive(&shared.filter_empty[last]);
  windows.release();
  wgmma_settle(sums);
}

// Of a share: two neighbouring pixels of a channel at once where args says so.
template <int kPixels, int kChannels>
__device__ __forceinline__ void write(const Arguments& args, const Item<kPixels, kChannels>& item,
                                      int32_t group, int32_t warp, int32_t lane,
                                      const float (&sums)[kPixels / 128][kChannels / 2]) {
  const int32_t first_channel = item.first_channel + lane % 4 * 2;
  float* const to = args.to + item.split * args.split_step + first_channel * args.channel_step;
  const float* const bias = args.splits == 1 ? args.bias : nullptr;
#pragma unroll
  for (int i = 0; i < kPixels / 64; ++i) {
    if (args.writes_pairs && i % 2 == 1) continue;
    const int32_t pixel =
        (group * (kPixels / 128) + i / 2) * 64 + pixel_in_64(args, warp, lane, i % 2);
    const int32_t column = item.column + (pixel & ((1 << args.log_columns) - 1));
    const int32_t row = item.row + (pixel >> args.log_columns & ((1 << args.log_rows) - 1));
    const int32_t image = item.image + (pixel >> (args.log_columns + args.log_rows));
    if (column >= args.columns || row >= args.rows || image >= args.images) continue;
    float* at = to + image * args.image_step + row * args.row_step + column;
#pragma unroll
    for (int j = 0; j < kChannels / 4; ++j) {
      const int32_t channel = first_channel + j / 2 * 8 + j % 2;
      if (channel >= args.channels) break;
      const float value = bias == nullptr ? 0 : bias[channel];
      const float own = sums[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2] + value;
      if (i % 2 == 0 && args.writes_pairs) {
        const float other = sums[i / 2][j / 2 * 4 + 2 + j % 2] + value;
        *reinterpret_cast<float2*>(at) = make_float2(own, other);
      } else {
        *at = own;
      }
      at += (j % 2 == 0 ? 1 : 7) * args.channel_step;
    }
  }
}

template <int kPixels, int kChannels>
__global__ void __launch_bounds__(threads_of(Tile{kPixels, kChannels}),
                                  blocks_of(Tile{kPixels, kChannels}))
    unpacked_kernel(const __grid_constant__ Arguments args,
                    const __grid_constant__ CUtensorMap source,
                    const __grid_constant__ CUtensorMap filter, uint32_t box_bytes) {
  constexpr Tile kTile{kPixels, kChannels};
  constexpr int kBlocks = kPixels / 128;  // of 64 pixels, of a warpgroup
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[4 * kMaxStages];
  static_assert(kAlignment + kMostShared + sizeof(barriers) <= kMaxShared);
  const SharedMemory shared(args, shared_address(shared_base), barriers, filter_stage_bytes(kTile));
  const int32_t warp = this_warp();
  const auto thread = static_cast<int32_t>(threadIdx.x), lane = thread % 32;

  allow_dependents();
  if (thread == 0) {
    prefetch_map(&source);
    prefetch_map(&filter);
    for (int i = 0; i < kMaxStages; ++i) {
      cuda::ptx::mbarrier_init(&shared.filter_full[i], 1);
      cuda::ptx::mbarrier_init(&shared.filter_empty[i], kMathGroups * 4);
      cuda::ptx::mbarrier_init(&shared.window_full[i], 1);
      cuda::ptx::mbarrier_init(&shared.window_empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  // For each step four pairs: a lane has the k-th and the (k + 4)-th element of its depth.
  for (int32_t i = thread; i < args.window_steps * kStepDepth; i += threads_of(kTile)) {
    const int32_t depth = i / kStepDepth * kStepDepth + i % 2 * 4 + i % kStepDepth / 2;
    const int32_t channel = args.taps.quotient(depth), tap = depth - channel * args.taps.divisor;
    const int32_t row = args.taps_w.quotient(tap), column = tap - row * args.taps_w.divisor;
    const int32_t at =
        channel * args.channel_bytes + row * args.tap_row_bytes + column * args.tap_column_bytes;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared.table + i * 4), "r"(at) : "memory");
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp / 4 == kMathGroups) {
    if constexpr (blocks_of(kTile) == 1) release_registers<kLoadRegisters>();
    if (warp % 4 == 0 && lane == 0)
      produce<kPixels, kChannels>(args, source, filter, shared, box_bytes);
    return;
  }
  if constexpr (blocks_of(kTile) == 1) take_registers<kMathRegisters>();
  Windows<kBlocks> windows(args, shared, warp / 4, warp % 4, lane);
  RingPosition filters;
  const int32_t all = args.tiles * args.splits;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < all;
       number += static_cast<int32_t>(gridDim.x)) {
    const Item<kPixels, kChannels> item(args, number);
    float sums[kBlocks][kChannels / 2] = {};
    multiply<kBlocks, kChannels>(shared, windows, filters, args.filter_stages, item.first_stage,
                                 item.stages, lane, sums);
    write<kPixels, kChannels>(args, item, warp / 4, warp % 4, lane, sums);
  }
}

}  // namespace haloconv::unpacked
