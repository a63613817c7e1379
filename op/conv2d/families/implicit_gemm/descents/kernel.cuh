// fprop and dgrad by descents: descents.h.
//
// A warp waits for no other once the filter is there, so that one multiplies while others write
// results or wait for copies.
#pragma once

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/implicit_gemm/descents/loader.cuh"
#include "conv2d/families/implicit_gemm/windows/epilogue.cuh"

namespace haloconv::implicit_gemm {

using DescentFactors = sm90::ChannelTable<kDescentChannels>;

// Of neighbouring results, which a lane writes at once where they lie so.
inline constexpr int kDescentResultBytes = 8;

// Of three rows of results, the eldest first, and each 8 pixels four: of channel
// strip_channel(lane) the pixels 2 * (lane % 4) and the next, and the same of the channel eight
// further. Of 16-bit types 8 pixels are the even ones of 16, or the odd ones.
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

// Where a lane's pixels lie in a stage.
template <class T>
struct DescentPlace {
  // Of float32, from channel lane % 4 on.
  uint32_t first;

  __device__ __forceinline__ DescentPlace(const DescentSource<T>& source, int32_t lane)
      : first(lane % 4 * descent_line_bytes(sizeof(T)) +
              (lane / 4 + source.line().shift) * sizeof(T)) {}
};
template <class T>
  requires(sizeof(T) == 2)
struct DescentPlace<T> {
  // Of channel 2 * (lane % 4), and of the next.
  uint32_t first, second;

  __device__ __forceinline__ DescentPlace(const DescentSource<T>& source, int32_t lane)
      : first(of(source, 0, lane)), second(of(source, 1, lane)) {}

 private:
  static __device__ __forceinline__ uint32_t of(const DescentSource<T>& source, int32_t channel,
                                                int32_t lane) {
    return (lane % 4 * 2 + channel) * descent_line_bytes(sizeof(T)) + lane / 4 * kWordBytes +
           source.line(channel).shift * sizeof(T);
  }
};

// A chunk: `filter` is where the lane's words of the chunk's fragments are.
__device__ __forceinline__ void multiply_chunk(uint32_t stage, const DescentPlace<float>& at,
                                               uint32_t filter, DescentSums& sums) {
  constexpr int kLineBytes = descent_line_bytes(sizeof(float));
  const uint32_t pixels = stage + at.first;
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
        load_shared(pixels + (i * 8 + column) * 4 + k * 4 * kLineBytes, value);
        words[k] = round_to_tf32(value[0]);
      }
#pragma unroll
      for (int row = 0; row < kDescentTaps; ++row) {
        multiply_add<float>(sums.of[row][i], channels[row], words);
      }
    }
  }
}
template <class T>
  requires(sizeof(T) == 2)
__device__ __forceinline__ void multiply_chunk(uint32_t stage, const DescentPlace<T>& at,
                                               uint32_t filter, DescentSums& sums) {
  constexpr int kLineBytes = descent_line_bytes(sizeof(T));
  constexpr int kParts = 2;  // the even pixels and the odd ones
  const uint32_t first = stage + at.first, second = stage + at.second;
  uint32_t channels[kDescentTaps][kDescentTaps][4];
#pragma unroll
  for (int column = 0; column < kDescentTaps; ++column) {
#pragma unroll
    for (int row = 0; row < kDescentTaps; ++row) {
      load_shared_bits(filter + (column * kDescentTaps + row) * kFragmentBytes,
                       channels[column][row]);
    }
  }
#pragma unroll
  for (int i = 0; i < DescentSums::kBlocks; i += kParts) {
    // What the first column's taps meet, and behind it what they meet two pixels further.
    uint32_t pixels[2 * kParts][2];
#pragma unroll
    for (int further = 0; further < 2; ++further) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int place = i * 8 * sizeof(T) + further * kWordBytes + k * 8 * kLineBytes;
        uint32_t of_first, of_second;
        load_shared_bits(first + place, of_first);
        load_shared_bits(second + place, of_second);
        pixels[further * kParts][k] = __byte_perm(of_first, of_second, 0x5410);
        pixels[further * kParts + 1][k] = __byte_perm(of_first, of_second, 0x7632);
      }
    }
#pragma unroll
    for (int column = 0; column < kDescentTaps; ++column) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int row = 0; row < kDescentTaps; ++row) {
          multiply_add<T>(sums.of[row][i + part], channels[column][row], pixels[column + part]);
        }
      }
    }
  }
}

// Where a row of a channel goes.
template <class T>
struct DescentResult {
  T* to;          // for the lane's first pixel
  int32_t left;   // columns from that on
  bool exists;    // the channel
  bool is_whole;  // all columns exist, and there are `neighbours`
  // As many pixels lie side by side in one vector's bytes at the row's beginning.
  int32_t neighbours;
  bool has_first;  // the lane's first pixel is no lead
};

__device__ __forceinline__ void store_descent_row(const DescentResult<float>& result, int k,
                                                  const float (&sums)[DescentSums::kBlocks][4]) {
#pragma unroll
  for (int i = 0; i < DescentSums::kBlocks; ++i) {
    const float pair[2] = {sums[i][2 * k], sums[i][2 * k + 1]};
    const bool is_pair = result.neighbours >= 2 && i * 8 + 1 < result.left;
    store_global(result.to + i * 8, pair, result.exists && is_pair);
    if (result.is_whole) continue;
#pragma unroll
    for (int one = 0; one < 2; ++one) {
      const float value[1] = {pair[one]};
      store_global(result.to + i * 8 + one, value,
                   result.exists && !is_pair && i * 8 + one < result.left);
    }
  }
}
template <class T>
  requires(sizeof(T) == 2)
__device__ __forceinline__ void store_descent_row(const DescentResult<T>& result, int k,
                                                  const float (&sums)[DescentSums::kBlocks][4]) {
#pragma unroll
  for (int i = 0; i < DescentSums::kBlocks; i += 2) {
    // An even pixel and the odd one behind it, and the next two.
    const uint32_t words[2] = {Element<T>::pair(sums[i][2 * k], sums[i + 1][2 * k]),
                               Element<T>::pair(sums[i][2 * k + 1], sums[i + 1][2 * k + 1])};
    const int column = i * 8;
    const bool are_four = result.neighbours >= 4 && column + 3 < result.left;
    store_global_bits(result.to + column, words, result.exists && are_four);
    if (result.is_whole) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int first = column + 2 * j;
      const bool is_pair = result.neighbours == 2 && first + 1 < result.left;
      store_global_bits(result.to + first, words[j], result.exists && is_pair);
#pragma unroll
      for (int one = 0; one < 2; ++one) {
        const bool exists = first + one < result.left && (first + one > 0 || result.has_first);
        store_global_bits(result.to + first + one, static_cast<uint16_t>(words[j] >> 16 * one),
                          result.exists && !are_four && !is_pair && exists);
      }
    }
  }
}

// Writes a row. `to` is where its first pixel of the group's first channel goes, `column` that
// pixel's column.
template <class T>
__device__ __forceinline__ void write_descent_row(const Arguments& args,
                                                  const DescentFactors& factors, T* to,
                                                  int32_t column, int32_t lane,
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
    sm90::with_quick_activation<T>(args.quick, [&](auto activate) {
#pragma unroll
      for (auto& block : sums) {
#pragma unroll
        for (float& value : block) value = activate(value);
      }
    });
  }
  constexpr int32_t kLanePixels = kDescentResultBytes / static_cast<int32_t>(sizeof(T));
  const auto begins = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to)) |
                      static_cast<uint32_t>(channel_step * sizeof(T));
  const int32_t left = args.phases[0].w.pixels - column;
  DescentResult<T> result;
  result.neighbours = column < 0                          ? 1
                      : begins % kDescentResultBytes == 0 ? kLanePixels
                      : begins % kWordBytes == 0          ? kWordBytes / sizeof(T)
                                                          : 1;
  result.is_whole = result.neighbours == kLanePixels && left >= kDescentColumns;
  result.left = left - lane % 4 * kLanePixels;
  result.has_first = column >= 0 || lane % 4 > 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int32_t channel = strip_channel(lane) + k * 8;
    result.exists = channel < args.geometry.rows;
    result.to = to + channel * channel_step + lane % 4 * kLanePixels;
    store_descent_row(result, k, sums);
  }
}

// Blocks: a group's next to each other. A warp takes each so many'th descent.
template <class T>
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
  const sm90::Results results = results_of<T>(args, group);
  if (warp == 0) factors.template fill<T, 32>(results, 0, thread);
  const char* const packed = static_cast<const char*>(args.filter) +
                             (group * args.filter_group + phase.packed_offset) * int64_t{sizeof(T)};
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
  const int32_t lead = descent_lead(g, phase, sizeof(T));
#pragma unroll 1
  for (int32_t number = (block - group * args.strips.blocks) * args.strips.groups + warp;
       number < descents; number += step) {
    const Descent at(args, lead, number);
    DescentLoader<T> loader(args, at, group, lane);
    DescentSource<T> source(args, at, group);
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
    T* to =
        static_cast<T*>(results.to) + destination_pixel(g, phase, {at.image, at.row, at.column});
    DescentSums sums;
#pragma unroll 1
    for (int32_t row = 1 - kDescentTaps; row < at.rows; ++row) {
      // Of channels that begin as channel lane / 4 does; of none in most rows.
      const int32_t before = source.line(lane / 4 % descent_channels_alike(sizeof(T))).before();
      const bool begins_before = __any_sync(0xffffffff, before > 0);
      const DescentPlace<T> place(source, lane);
      uint32_t of_chunk = filter + lane * kUnitBytes;
#pragma unroll 1
      for (int32_t chunk = 0; chunk < chunks; ++chunk) {
        wait_for_groups<kDescentStages - 2>();
        __syncwarp();  // all lanes' copies are there, and nobody reads the stage before
        if (begins_before) {
          clear_before_row<T>(read, before, lane);
          __syncwarp();
        }
        fill();
        multiply_chunk(read, place, of_chunk, sums);
        of_chunk += kDescentChunkFragments * kFragmentBytes;
        read = next_stage(read);
      }
      source.next_row();
      if (row >= 0) {
        write_descent_row(args, factors, to, at.column, lane, sums.of[0]);
        to += g.axis_h.pixel_step * g.destination.h;
      }
      sums.advance();
    }
    __syncwarp();  // nobody reads the ring
  }
}

}  // namespace haloconv::implicit_gemm
