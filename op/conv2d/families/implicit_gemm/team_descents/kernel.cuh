// fprop and dgrad by descents of a team: team_descents.h.
#pragma once

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/implicit_gemm/team_descents/mainloop.cuh"
#include "conv2d/families/implicit_gemm/windows/epilogue.cuh"

namespace haloconv::implicit_gemm {

using TeamFactors = sm90::ChannelTable<kTeamTileChannels>;

// Where a lane's results of a group go: neighbours, of two channels.
template <class T>
struct TeamResults {
  static constexpr int kVector = team_vector(sizeof(T));

  T* to;           // of the first channel; 16 bytes of memory begin there
  int32_t column;  // the group's first
  bool has_any;    // the group

  // `further` is where the second channel is, in elements, `columns` how many the destination has.
  __device__ __forceinline__ void write(int64_t further, const bool (&exist)[2], int32_t columns,
                                        int32_t lane, const float (&values)[2][kVector]) const {
    const bool is_whole = column >= 0 && column + 4 * kVector <= columns;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      T* const at = to + i * further;
      if constexpr (sizeof(T) == 4) {
        store_global(at, values[i], exist[i] && is_whole && has_any);
      } else {
        uint32_t words[kVector / 2];
#pragma unroll
        for (int k = 0; k < kVector / 2; ++k) {
          words[k] = Element<T>::pair(values[i][2 * k], values[i][2 * k + 1]);
        }
        store_global_bits(at, words, exist[i] && is_whole && has_any);
      }
    }
    if (is_whole || !has_any) return;
    const int32_t first = column + lane % 4 * kVector;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        T* const at = to + i * further + k;
        const bool wanted = exist[i] && first + k >= 0 && first + k < columns;
        if constexpr (sizeof(T) == 4) {
          const float value[1] = {values[i][k]};
          store_global(at, value, wanted);
        } else {
          const uint32_t both = Element<T>::pair(values[i][k], 0.0f);
          store_global_bits(at, static_cast<uint16_t>(both), wanted);
        }
      }
    }
  }
};

// Blocks: a tile's next to each other. Each takes each so many'th descent.
template <class T>
__global__ void __launch_bounds__(32 * kTeamWarps, 1)
    implicit_gemm_team_descents_kernel(const __grid_constant__ Arguments args) {
  constexpr auto kBytes = static_cast<int32_t>(sizeof(T));
  extern __shared__ __align__(128) unsigned char shared[];
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[0];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = thread / 32, lane = thread % 32;
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t rest = args.channel_tiles.quotient(block);
  const int32_t tile_channel = (block - rest * args.channel_tiles.divisor) * kTeamTileChannels;
  const int32_t first = rest / g.groups, group = rest - first * g.groups;
  const int32_t columns = team_columns(phase.w.pixels, args.patches[0].columns.divisor, kBytes);
  const TeamMemory memory(columns, kBytes);

  auto& factors = *reinterpret_cast<TeamFactors*>(shared);
  const uint32_t ring = shared_address(shared) + sizeof(factors);
  const uint32_t staged = ring + TeamMemory::kRows * memory.row_bytes;
  const auto row_at = [&](int32_t i) { return ring + i % TeamMemory::kRows * memory.row_bytes; };
  const auto staging_at = [&](int32_t i) {
    return staged + i % TeamMemory::kStagedRows * memory.staging_bytes;
  };

  TeamLoader<T> loader(args, memory, columns, group, first, warp, lane);
  loader.copy(staging_at(0));
  loader.copy(staging_at(1));
  const sm90::Results results = results_of<T>(args, group);
  factors.template fill<T, 32 * kTeamWarps>(results, tile_channel, thread);
  const TeamFilter<T> filter(args, static_cast<const T*>(args.filter) + group * g.filter_group,
                             tile_channel, warp, lane);
  TeamTurn<T> turn(memory, warp, lane);
  const auto turn_all = [&] {
#pragma unroll 1
    while (turn.has_next()) {
      turn.load();
      turn.store();
    }
  };
  wait_for_groups<1>();
  __syncthreads();  // the first row is staged, and the factors are there
  turn.begin(staging_at(0), row_at(0));
  turn_all();

  const int32_t channel = team_channel(warp, lane / 4);
  const float2 of_channels[2] = {factors.entries[channel],
                                 factors.entries[team_channel(warp, lane / 4 + 8)]};
  TeamProducts<T> products(filter, memory, lane);
  const int64_t further = 8 * kTeamWarps * g.destination.c;
  const bool exist[2] = {tile_channel + channel < g.rows,
                         tile_channel + team_channel(warp, lane / 4 + 8) < g.rows};
  TeamResults<T> to;  // of the last group that was multiplied
  to.has_any = false;
  float values[2][TeamResults<T>::kVector];
  const auto add = [&] { products.add_up(values); };
  const auto write = [&] {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (float& value : values[i]) value = value * of_channels[i].x + of_channels[i].y;
    }
    if (args.fusion.activation.kind != ActivationKind::kNone) {
      sm90::with_quick_activation<T>(args.quick, [&](auto activate) {
#pragma unroll
        for (auto& of_channel : values) {
#pragma unroll
          for (float& value : of_channel) value = activate(value);
        }
      });
    }
    to.write(further, exist, phase.w.pixels, lane, values);
  };
  constexpr int32_t kGroup = team_group(kBytes);
  int32_t row_number = 0;  // of all rows of the source that the block has met
#pragma unroll 1
  for (int32_t number = first; number < static_cast<int32_t>(args.pixel_tiles);
       number += args.strips.blocks) {
    const TeamDescent at(args, columns, number);
    const int64_t row_step = g.axis_h.pixel_step * g.destination.h;
    // Of the warp's first channel.
    T* line = static_cast<T*>(results.to) + (tile_channel + warp) * g.destination.c +
              destination_pixel(g, phase, {at.image, at.row, 0});
    const int32_t staged_first =
        team_source_column(args, at.column) - team_first_column<T>(args, at.column);
#pragma unroll 1
    for (int32_t row = 1 - kTeamTaps; row < at.rows; ++row, ++row_number) {
      wait_for_copies();
      // The next row is staged, this one turned, and nobody reads the one that was met before.
      __syncthreads();
      loader.copy(staging_at(row_number));
      turn.begin(staging_at(row_number + 1), row_at(row_number + 1));
      if (row < 0) {
        turn_all();
        continue;
      }
      const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(line));
      const int32_t behind = static_cast<int32_t>(low % kSectorBytes) / kBytes;
      const int32_t own = min(columns, phase.w.pixels - (at.column - behind));
      const int32_t groups = (own + kGroup - 1) / kGroup;
      const uint32_t rows[kTeamTaps] = {row_at(row_number + 2), row_at(row_number + 3),
                                        row_at(row_number)};
      products.begin(rows, staged_first - behind + groups * kGroup);
      // Of the pixels behind the last group, that is computed first, only sums are wanted.
      int32_t column = at.column - behind + groups * kGroup;
      T* next = line + lane / 4 * kTeamWarps * g.destination.c + column +
                lane % 4 * TeamResults<T>::kVector;
#pragma unroll 1
      for (int32_t i = 0; i <= groups; ++i) {
        turn.load();
        products.multiply(add, [&] {
          write();
          turn.store();
        });
        to = {next, column, i > 0};
        next -= kGroup;
        column -= kGroup;
      }
      turn_all();
      line += row_step;
    }
  }
  add();
  write();
}

}  // namespace haloconv::implicit_gemm
