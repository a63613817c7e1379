// fprop and dgrad as tiles of a matrix product: A = packed filter (rows, reduction), B = gathered
// pixels (reduction, pixels).
#pragma once

#include <type_traits>

#include "conv2d/generic/arguments.cuh"
#include "conv2d/generic/loaders.cuh"

namespace haloconv::generic {

// A block's place: which rows, which pixels of which phase, which group.
struct GatherTile {
  int32_t row;    // first row
  int64_t pixel;  // first pixel of the phase
  int32_t phase, group;

  // Row tiles change fastest, so that blocks that run together gather the same pixels.
  template <class Arguments>
  __device__ __forceinline__ GatherTile(const Arguments& args, int rows, int pixels) {
    const uint32_t tile = blockIdx.x / args.row_tiles;
    row = static_cast<int32_t>(blockIdx.x % args.row_tiles) * rows;
    group = static_cast<int32_t>(tile / args.tiles);
    const int32_t pixel_tile = static_cast<int32_t>(tile % args.tiles);
    phase = 0;
    while (phase + 1 < args.phase_count && pixel_tile >= args.phases[phase + 1].first_tile) ++phase;
    pixel = int64_t{pixel_tile - args.phases[phase].first_tile} * pixels;
  }
};

// Sums of float32 results are kept in parts of this many products, added in the result itself:
// their error then grows with the part, not with the whole reduction. 16-bit results round away
// more than that, and float64 has bits to spare.
inline constexpr int kPartialProducts = 128;
template <class T, class Tile>
inline constexpr int kPartialSteps =
    std::is_same_v<T, float> ? kPartialProducts / Tile::kK : INT32_MAX;

// Moves a part of the sums to the result, from where store_tile() collects it.
template <class T, class Tile>
__device__ __forceinline__ void add_part(const GatherArguments<T>& args, const GatherTile& at,
                                         Tile& tile, const int64_t* pixel_offset, bool first) {
  const Gather& g = args.geometry;
  const int64_t pixels = args.phases[at.phase].pixels - at.pixel;
  int first_row = at.row, first_column = 0;
  hide(first_row);
  hide(first_column);
#pragma unroll
  for (int j = 0; j < Tile::kTN; ++j) {
    const int column = first_column + tile.column(j);
    if (column >= pixels) continue;
    const int64_t offset = pixel_offset[column];
#pragma unroll
    for (int i = 0; i < Tile::kTM; ++i) {
      const int row = first_row + tile.row(i);
      if (row >= g.rows) continue;
      T* sum = args.destination + (offset + (int64_t{at.group} * g.rows + row) * g.destination.c);
      *sum = first ? tile.acc[i][j] : *sum + tile.acc[i][j];
    }
  }
  tile.clear();
}

// Writes the tile, with the bias and, where `has_part`, what add_part() moved: a slice of it at a
// time goes through shared memory, so that neighbouring threads write neighbouring elements. A
// slice is one register row of every thread where pixels are contiguous (kRows), else one register
// column.
template <class T, class Tile, bool kRows>
__device__ __forceinline__ void store_tile(const GatherArguments<T>& args, const GatherTile& at,
                                           const Tile& tile, typename Tile::Acc* slice,
                                           const int64_t* pixel_offset, bool has_part) {
  using Acc = typename Tile::Acc;
  constexpr int kSlices = kRows ? Tile::kTM : Tile::kTN;
  constexpr int kLength = kRows ? Tile::kN : Tile::kM;  // contiguous in memory
  constexpr int kLines = kRows ? Tile::kM / Tile::kTM : Tile::kN / Tile::kTN;
  constexpr int kPitch = kLength + Tile::kVec;
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[at.phase];
#pragma unroll
  for (int slice_index = 0; slice_index < kSlices; ++slice_index) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (kRows ? Tile::kTN : Tile::kTM); ++i) {
      if constexpr (kRows) {
        slice[tile.y * kPitch + tile.column(i)] = tile.acc[slice_index][i];
      } else {
        slice[tile.x * kPitch + tile.row(i)] = tile.acc[i][slice_index];
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int e = threadIdx.x; e < kLines * kLength; e += Tile::kThreads) {
      const int line = e / kLength, position = e % kLength;
      // The tile row or column of line `line` in this slice, as Tile::row() and column() count.
      constexpr int kGroupDistance = (kRows ? Tile::kM : Tile::kN) * Tile::kVec / kSlices;
      const int across =
          slice_index / Tile::kVec * kGroupDistance + line * Tile::kVec + slice_index % Tile::kVec;
      const int row = at.row + (kRows ? across : position);
      const int column = kRows ? position : across;
      if (row >= g.rows || at.pixel + column >= phase.pixels) continue;
      const int64_t channel = int64_t{at.group} * g.rows + row;
      Acc value = slice[line * kPitch + position];
      T* result = args.destination + (pixel_offset[column] + channel * g.destination.c);
      if (has_part) value += static_cast<Acc>(*result);
      if (args.bias != nullptr) value += load(args.bias + channel);
      store(result, value);
    }
  }
}

template <class T, class Tile, Lanes kLanes>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    gather_tile_kernel(const __grid_constant__ GatherArguments<T> args) {
  using Acc = typename Tile::Acc;
  const Gather& g = args.geometry;
  const GatherTile at(args, Tile::kM, Tile::kN);
  const Phase& phase = args.phases[at.phase];

  const auto tap = [&](int32_t step, int k) { return gather_tap(g, phase, step * Tile::kK + k); };
  using LoadPixels = GatherLoader<T, Tile::kThreads, Tile::kN, Tile::kK, Tile::kPitchB, kLanes,
                                  /*kHasOne=*/false, decltype(tap)>;
  using LoadFilter = PackedLoader<Acc, Tile::kThreads, Tile::kM, Tile::kK, Tile::kPitchA>;

  __shared__ typename Tile::Shared operands;
  __shared__ typename LoadPixels::Shared sites;
  __shared__ int64_t pixel_offset[Tile::kN];

  const PixelRange range(at.pixel, phase.plane, phase.columns);
  const auto pixel = [&](int i) {
    return at.pixel + i < phase.pixels ? gather_pixel(g, phase, range[i]) : outside();
  };
  LoadPixels pixels(sites, args.source + int64_t{at.group} * g.channels * g.source.c, g.source_h,
                    g.source_w, pixel, tap);
  LoadFilter filter(
      args.packed + at.group * args.packed_group + phase.packed_offset * args.packed_pitch + at.row,
      args.packed_pitch);
  for (int i = threadIdx.x; i < Tile::kN; i += Tile::kThreads) {
    pixel_offset[i] = destination_pixel(g, phase, range[i]);
  }

  Tile tile;
  const int32_t steps = (phase.reduction + Tile::kK - 1) / Tile::kK;
  bool has_part = false;
  run_mainloop(tile, operands, filter, pixels, steps, [&](int32_t step) {
    if ((step + 1) % kPartialSteps<T, Tile> != 0 || step + 1 == steps) return;
    if constexpr (std::is_same_v<T, float>) add_part(args, at, tile, pixel_offset, !has_part);
    has_part = true;
  });

  static_assert(sizeof(operands) >= sizeof(Acc) * (Tile::kM / Tile::kTM) * Tile::kPitchB &&
                sizeof(operands) >= sizeof(Acc) * (Tile::kN / Tile::kTN) * Tile::kPitchA);
  Acc* slice = reinterpret_cast<Acc*>(&operands);
  if (g.destination.w <= g.destination.c) {
    store_tile<T, Tile, true>(args, at, tile, slice, pixel_offset, has_part);
  } else {
    store_tile<T, Tile, false>(args, at, tile, slice, pixel_offset, has_part);
  }
}

}  // namespace haloconv::generic
