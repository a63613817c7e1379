// fprop and dgrad by descents: descents.h.
//
// A warp waits for no other once the filter is there, so that one multiplies while others write
// results or wait for copies.
#pragma once

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/implicit_gemm/descent_loader.cuh"
#include "conv2d/families/implicit_gemm/window_epilogue.cuh"

namespace haloconv::implicit_gemm {

using DescentFactors = sm90::ChannelTable<kDescentChannels>;

// Of three rows of results, the eldest first, and each 8 pixels four: of channel
// strip_channel(lane) the pixels 2 * (lane % 4) and the next, and the same of the channel eight
// further.
struct DescentSums {
  static constexpr int kBlocks = kDescentColumns / 8;
  float of[kDescentTaps][kBlocks][4] = {};

  // A source row further.
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int row = 0; row + 1 < kDescentTaps; ++row) of[row][i][k] = of[row + 1][i][k];
        of[kDescentTaps - 1][i][k] = 0;
      }
    }
  }
};

// A chunk: `pixels` is where a lane's first pixel lies in its stage, `filter` where the lane's
// words of the chunk's fragments do.
__device__ __forceinline__ void multiply_chunk(uint32_t pixels, uint32_t filter,
                                               DescentSums& sums) {
#pragma unroll
  for (int column = 0; column < kDescentTaps; ++column) {
    uint32_t channels[kDescentTaps][4];
#pragma unroll
    for (int row = 0; row < kDescentTaps; ++row) {
      load_shared_bits(filter + (column * kDescentTaps + row) * kFragmentBytes, channels[row]);
    }
#pragma unroll
    for (int i = 0; i < DescentSums::kBlocks; ++i) {
      uint32_t words[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float value[1];
        load_shared(pixels + (i * 8 + column) * 4 + k * 4 * kDescentLineBytes, value);
        words[k] = round_to_tf32(value[0]);
      }
#pragma unroll
      for (int row = 0; row < kDescentTaps; ++row) {
        multiply_add<float>(sums.of[row][i], channels[row], words);
      }
    }
  }
}

// Writes a row. `to` is where its first pixel of the group's first channel goes, `left` how many
// columns there are from that on.
__device__ __forceinline__ void write_descent_row(const Arguments& args,
                                                  const DescentFactors& factors, float* to,
                                                  int32_t left, int32_t lane,
                                                  float (&sums)[DescentSums::kBlocks][4]) {
  const int64_t channel_step = args.geometry.destination.c;
  const float2* const entries = &factors.entries[strip_channel(lane)];
  const float2 of_channels[2] = {entries[0], entries[8]};
#pragma unroll
  for (auto& block : sums) {
#pragma unroll
    for (int k = 0; k < 4; ++k) block[k] = block[k] * of_channels[k / 2].x + of_channels[k / 2].y;
  }
  if (args.fusion.activation.kind != ActivationKind::kNone) {
    sm90::with_quick_activation<float>(args.quick, [&](auto activate) {
#pragma unroll
      for (auto& block : sums) {
#pragma unroll
        for (float& value : block) value = activate(value);
      }
    });
  }
  const auto begins = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to)) |
                      static_cast<uint32_t>(channel_step * 4);
  const bool has_pairs = begins % 8 == 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int32_t channel = strip_channel(lane) + k * 8;
    const bool exists = channel < args.geometry.rows;
    float* const line = to + channel * channel_step + lane % 4 * 2;
    const int32_t columns = left - lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < DescentSums::kBlocks; ++i) {
      const float pair[2] = {sums[i][2 * k], sums[i][2 * k + 1]};
      const bool is_pair = has_pairs && i * 8 + 1 < columns;
      store_global(line + i * 8, pair, exists && is_pair);
      if (has_pairs && left >= kDescentColumns) continue;
#pragma unroll
      for (int one = 0; one < 2; ++one) {
        const float value[1] = {pair[one]};
        store_global(line + i * 8 + one, value, exists && !is_pair && i * 8 + one < columns);
      }
    }
  }
}

// Blocks: a group's next to each other. A warp takes each so many'th descent.
__global__ void __launch_bounds__(32 * kMostDescentWarps, 1)
    implicit_gemm_descents_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) unsigned char shared[];
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[0];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = thread / 32, lane = thread % 32;
  const int32_t threads = 32 * args.strips.groups;
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t group = g.groups == 1 ? 0 : block / args.strips.blocks;
  const int32_t chunks = args.windows.chunks;

  auto& factors = *reinterpret_cast<DescentFactors*>(shared);
  const uint32_t filter = shared_address(shared) + sizeof(factors);
  const uint32_t ring =
      filter + descent_filter_bytes(chunks) + warp * kDescentStages * kDescentStageBytes;
  const sm90::Results results = results_of<float>(args, group);
  if (warp == 0) factors.template fill<float, 32>(results, 0, thread);
  const char* const packed =
      static_cast<const char*>(args.filter) +
      (group * args.filter_group + phase.packed_offset) * int64_t{sizeof(float)};
  for (int32_t unit = thread; unit < chunks * kDescentChunkFragments * 32; unit += threads) {
    const int32_t fragment = unit / 32, chunk = fragment / kDescentChunkFragments;
    const int32_t from = chunk * kDescentChunkFragments +
                         descent_fragment(g, fragment - chunk * kDescentChunkFragments);
    copy_async_bytes<kUnitBytes>(filter + unit * kUnitBytes,
                                 packed + from * kFragmentBytes + unit % 32 * kUnitBytes,
                                 kUnitBytes);
  }
  wait_for_copies();
  __syncthreads();

  const auto descents = static_cast<int32_t>(args.pixel_tiles);
  const int32_t step = args.strips.blocks * args.strips.groups;
#pragma unroll 1
  for (int32_t number = (block - group * args.strips.blocks) * args.strips.groups + warp;
       number < descents; number += step) {
    const Descent at(args, number);
    DescentLoader loader(args, at, group, lane);
    DescentSource source(args, at, group);
    const int32_t source_rows = at.rows + kDescentTaps - 1;
    int32_t stages_left = source_rows * chunks;  // that no copies were issued for
    uint32_t filled = ring, read = ring;
    const auto next_stage = [ring](uint32_t stage) {
      return stage == ring + (kDescentStages - 1) * kDescentStageBytes ? ring
                                                                       : stage + kDescentStageBytes;
    };
    const auto fill = [&] {
      if (stages_left > 0) loader.copy(filled);
      commit_copies();
      --stages_left;
      filled = next_stage(filled);
    };
    for (int i = 0; i < kDescentStages - 1; ++i) fill();
    float* to = static_cast<float*>(results.to) +
                destination_pixel(g, phase, {at.image, at.row, at.column});
    DescentSums sums;
#pragma unroll 1
    for (int32_t row = 1 - kDescentTaps; row < at.rows; ++row) {
      const DescentLine line = source.line();
      const int32_t before = line.before();
      const int32_t place = lane % 4 * kDescentLineBytes + (lane / 4 + line.shift) * 4;
      uint32_t of_chunk = filter + lane * kUnitBytes;
#pragma unroll 1
      for (int32_t chunk = 0; chunk < chunks; ++chunk) {
        wait_for_groups<kDescentStages - 2>();
        __syncwarp();  // all lanes' copies are there, and nobody reads the stage before
        if (before > 0) {
          clear_before_row(read, before, lane);
          __syncwarp();
        }
        fill();
        multiply_chunk(read + place, of_chunk, sums);
        of_chunk += kDescentChunkFragments * kFragmentBytes;
        read = next_stage(read);
      }
      source.next_row();
      if (row >= 0) {
        write_descent_row(args, factors, to, phase.w.pixels - at.column, lane, sums.of[0]);
        to += g.axis_h.pixel_step * g.destination.h;
      }
      sums.advance();
    }
    __syncwarp();  // nobody reads the ring
  }
}

}  // namespace haloconv::implicit_gemm
