// The products of turned.h, and where their sums go.
#pragma once

#include <type_traits>

#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/turned.h"
#include "conv2d/families/channels_last/turned_rows.h"
#include "cuda/mma.cuh"
#include "cuda/wgmma_registers.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
struct TurnedSumsOf {
  static constexpr TurnedPart kPart{kTile};
  using Type = float[kPart.blocks][kTile.pixels / 2];
};
template <Tile kTile>
using TurnedSums = typename TurnedSumsOf<kTile>::Type;

// A step's first operands of a gradient, 8 of the depth, from a stage's filter to registers.
template <int kBlocks>
__device__ __forceinline__ void load_turned(TurnedRows<kBlocks, true>, uint32_t at,
                                            uint4 (&operands)[kBlocks]) {
  const uint32_t further = TurnedRows<kBlocks, true>::further(at);
  if constexpr (kBlocks == 2) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(operands[0].x), "=r"(operands[0].y), "=r"(operands[1].x),
                   "=r"(operands[1].y)
                 : "r"(at)
                 : "memory");
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(operands[0].z), "=r"(operands[0].w), "=r"(operands[1].z),
                   "=r"(operands[1].w)
                 : "r"(further)
                 : "memory");
  } else {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(operands[0].x), "=r"(operands[0].y)
                 : "r"(at)
                 : "memory");
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(operands[0].z), "=r"(operands[0].w)
                 : "r"(further)
                 : "memory");
  }
}

// The same of a forward pass.
template <int kBlocks>
__device__ __forceinline__ void load_turned(TurnedRows<kBlocks, false>, uint32_t at,
                                            uint4 (&operands)[kBlocks]) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    uint32_t words[4];
    load_matrices(at + block * (2 * kTurnedBoxBytes), words);
    operands[block] = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// A warpgroup's part of a tile over `stages` > 0 stages; a lane's filter begins so far from a
// stage's start. A step's first operand is loaded while the step before it is multiplied.
// Calls issued() when all products are on their way.
template <Tile kTile, class Rows, class Issued>
__device__ __forceinline__ void multiply_turned(const SharedMemory<kTile>& shared,
                                                RingPosition& ring, int32_t stages,
                                                uint32_t filter_at, int32_t lane,
                                                int32_t stages_of_ring, TurnedSums<kTile>& sums,
                                                Issued issued) {
  constexpr int kBlocks = TurnedPart(kTile).blocks;
  constexpr int kSteps = kStageRowBytes / kOperandBytes;
  uint4 operands[2][kBlocks];
#pragma unroll
  for (auto& words : operands[1]) words = make_uint4(0, 0, 0, 0);
  const auto load = [&](uint32_t stage, int step, uint4(&to)[kBlocks]) {
    load_turned(Rows{}, Rows::at_step(stage + filter_at, step), to);
  };
  mbarrier_wait(&shared.full[ring.stage], ring.parity);
  load(shared.stage(ring.stage), 0, operands[0]);
  int32_t last = -1;
  do {
    const uint32_t stage = shared.stage(ring.stage);
    const uint64_t source =
        swizzled_form(kStageRowBytes, kStageRowBytes * 8) | operand_address(stage);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      wgmma_fence();
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        wgmma_registers<kTile.pixels>(sums[block], operands[step % 2][block],
                                      source + step * (kOperandBytes / 16));
      }
      wgmma_commit();
      wgmma_wait<1>();
      auto& next = operands[(step + 1) % 2];
#pragma unroll
      for (auto& words : next) wgmma_settle(words);
      if (step == 0 && last >= 0) release_stage(&shared.empty[last], lane);
      if (step + 1 < kSteps) {
        load(stage, step + 1, next);
      } else {
        last = ring.stage;
        ring.advance(stages_of_ring);
        if (stages > 1) {
          mbarrier_wait(&shared.full[ring.stage], ring.parity);
          load(shared.stage(ring.stage), 0, next);
        }
      }
    }
  } while (--stages > 0);
  issued();
  wgmma_wait<0>();
#pragma unroll
  for (auto& step : operands) {
#pragma unroll
    for (auto& words : step) wgmma_settle(words);
  }
  release_stage(&shared.empty[last], lane);
  wgmma_settle(sums);
}

// Neighbouring channels of a pixel: from one block's sums, or two's.
template <int kHalf>
__device__ __forceinline__ float2 turned_channels(const float (&sums)[1][kHalf], int i) {
  return make_float2(sums[0][i], sums[0][i + 2]);
}
template <int kHalf>
__device__ __forceinline__ float4 turned_channels(const float (&sums)[2][kHalf], int i) {
  return make_float4(sums[0][i], sums[0][i + 2], sums[1][i], sums[1][i + 2]);
}

// A lane's pixels of a tile, two neighbouring ones of each eight, and its first channel in them.
struct TurnedPlaces {
  const Arguments& args;
  const TilePhase& phase;
  int32_t number;  // of the first pixel
  float* to;       // the channel in pixel 0 of image 0

  __device__ __forceinline__ TurnedPlaces(const Arguments& all, const TilePhase& of,
                                          int32_t first_pixel, int32_t channel, int32_t lane)
      : args(all),
        phase(of),
        number(first_pixel + lane % 4 * 2),
        to(static_cast<float*>(all.results.to) + of.destination + channel) {}

  // Whether pixels lie one after the other in memory.
  __device__ __forceinline__ bool are_whole() const {
    return args.destination_h == args.destination_w * phase.columns.divisor &&
           args.destination_n == args.destination_w * phase.plane.divisor;
  }

  template <class Channels>
  __device__ __forceinline__ void store(int32_t further, const Channels& channels) const {
    if (number + further >= phase.pixels) return;
    const Pixel pixel(phase, number + further);
    *reinterpret_cast<Channels*>(to + pixel.image * args.destination_n +
                                 pixel.row * args.destination_h +
                                 pixel.column * args.destination_w) = channels;
  }
};

template <int kBlocks, int kHalf>
__device__ __forceinline__ void write_turned(const TurnedPlaces& places,
                                             const float (&sums)[kBlocks][kHalf]) {
  if (places.are_whole()) {
    const int32_t left = places.phase.pixels - places.number;
    const int64_t step = places.args.destination_w;
    float* pixel = places.to + places.number * step;
#pragma unroll
    for (int i = 0; i < kHalf; i += 4) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const auto channels = turned_channels(sums, i + j);
        if (i * 2 + j < left) {
          *reinterpret_cast<std::remove_const_t<decltype(channels)>*>(pixel + j * step) = channels;
        }
      }
      pixel += 8 * step;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kHalf; i += 4) {
    places.store(i * 2, turned_channels(sums, i));
    places.store(i * 2 + 1, turned_channels(sums, i + 1));
  }
}

// A warpgroup writes the zeros that go with an alternating tile, as in alternating_kernel.cuh.
template <Tile kTile>
__device__ __forceinline__ void write_turned_zeros(const Arguments& args, int32_t tile,
                                                   int32_t multiplied, int32_t own_channel,
                                                   int32_t lane) {
  for (int32_t to = tile + multiplied; to < args.tiles; to += multiplied) {
    wait_for_kernel_before();
    const TilePosition<kTile> at(args, to);
    const int32_t channel = at.first_channel + own_channel;
    if (channel >= args.results.channels) continue;
    const TurnedPlaces places(args, args.phase[at.phase], at.first_pixel, channel, lane);
#pragma unroll 1
    for (int32_t i = 0; i < kTile.pixels; i += 8) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (TurnedPart(kTile).blocks == 2) {
          places.store(i + j, make_float4(0, 0, 0, 0));
        } else {
          places.store(i + j, make_float2(0, 0));
        }
      }
    }
  }
}

}  // namespace haloconv::sm90::channels_last
