// fprop and dgrad as tiles of a matrix product: A = packed filter (rows, reduction), B = gathered
// pixels (reduction, pixels).
#pragma once

#include <type_traits>

#include "conv2d/device/fuse.cuh"
#include "conv2d/families/generic/arguments.cuh"
#include "conv2d/families/generic/loaders.cuh"

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

// Sums of float32 results are kept in parts of this many products, which are added to the result,
// so that their error grows with the part, not with the whole reduction. 16-bit results round away
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

// A tile's results go through shared memory a slice at a time, so that neighbouring threads write
// neighbouring elements. A slice is one register row of every thread where pixels are contiguous
// (kRows), else one register column.
template <class Tile, bool kRows>
struct Slice {
  using Acc = typename Tile::Acc;
  static constexpr int kSlices = kRows ? Tile::kTM : Tile::kTN;
  static constexpr int kLength = kRows ? Tile::kN : Tile::kM;  // contiguous in memory
  static constexpr int kLines = kRows ? Tile::kM / Tile::kTM : Tile::kN / Tile::kTN;
  static constexpr int kPitch = kLength + Tile::kVec;
  static constexpr int kElements = kLines * kLength;

  // Fills the slice with the threads' register row or column `from`.
  static __device__ __forceinline__ void stage(const Tile& tile, int from, Acc* slice) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (kRows ? Tile::kTN : Tile::kTM); ++i) {
      if constexpr (kRows) {
        slice[tile.y * kPitch + tile.column(i)] = tile.acc[from][i];
      } else {
        slice[tile.x * kPitch + tile.row(i)] = tile.acc[i][from];
      }
    }
    __syncthreads();
  }

  // Where element e of slice `index` lies in the tile, as Tile::row() and column() count.
  int line, position, row, column;
  __device__ __forceinline__ Slice(int index, int e) : line(e / kLength), position(e % kLength) {
    constexpr int kGroupDistance = (kRows ? Tile::kM : Tile::kN) * Tile::kVec / kSlices;
    const int across = index / Tile::kVec * kGroupDistance + line * Tile::kVec + index % Tile::kVec;
    row = kRows ? across : position;
    column = kRows ? position : across;
  }
  __device__ __forceinline__ Acc of(const Acc* slice) const {
    return slice[line * kPitch + position];
  }
};

// Writes the tile, with the bias and, if `has_part`, what add_part() moved.
template <class T, class Tile, bool kRows>
__device__ __forceinline__ void store_tile(const GatherArguments<T>& args, const GatherTile& at,
                                           const Tile& tile, typename Tile::Acc* slice,
                                           const int64_t* pixel_offset, bool has_part) {
  using Acc = typename Tile::Acc;
  using Slice = Slice<Tile, kRows>;
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[at.phase];
#pragma unroll
  for (int index = 0; index < Slice::kSlices; ++index) {
    Slice::stage(tile, index, slice);
#pragma unroll 4
    for (int e = threadIdx.x; e < Slice::kElements; e += Tile::kThreads) {
      const Slice element(index, e);
      const int row = at.row + element.row;
      if (row >= g.rows || at.pixel + element.column >= phase.pixels) continue;
      const int64_t channel = int64_t{at.group} * g.rows + row;
      Acc value = element.of(slice);
      T* result = args.destination + (pixel_offset[element.column] + channel * g.destination.c);
      if (has_part) value += static_cast<Acc>(*result);
      if (args.bias != nullptr) value += load(args.bias + channel);
      store(result, value);
    }
  }
}

// The same with a fusion. The loop over slices is not unrolled, so that each activation's code is
// there once: each turn moves its accumulators to the first row or column.
template <class T, class Tile, bool kRows>
__device__ __forceinline__ void store_tile_fused(const GatherArguments<T>& args,
                                                 const GatherTile& at, Tile& tile,
                                                 typename Tile::Acc* slice,
                                                 const int64_t* pixel_offset, bool has_part) {
  using Acc = typename Tile::Acc;
  using Slice = Slice<Tile, kRows>;
  constexpr int kStep = kFusedAtOnce * Tile::kThreads;
  static_assert(Slice::kElements % kStep == 0);
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[at.phase];
#pragma unroll 1
  for (int index = 0; index < Slice::kSlices; ++index) {
    Slice::stage(tile, 0, slice);
#pragma unroll 1
    for (int first = threadIdx.x; first < Slice::kElements; first += kStep) {
      Acc values[kFusedAtOnce];
      OutputElement elements[kFusedAtOnce];
#pragma unroll
      for (int i = 0; i < kFusedAtOnce; ++i) {
        const Slice element(index, first + i * Tile::kThreads);
        const int row = at.row + element.row;
        const int64_t channel = int64_t{at.group} * g.rows + row;
        elements[i] = {.exists = row < g.rows && at.pixel + element.column < phase.pixels,
                       .channel = channel,
                       .offset = pixel_offset[element.column] + channel * g.destination.c};
        values[i] = element.of(slice);
        if (has_part && elements[i].exists) {
          values[i] += static_cast<Acc>(args.destination[elements[i].offset]);
        }
      }
      store_fused(args, values, elements);
    }
    tile.template drop_first<kRows>();
  }
}

template <class T, class Tile, Lanes kLanes, bool kFused>
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
  const auto store_results = [&]<bool kRows>() {
    if constexpr (kFused) {
      store_tile_fused<T, Tile, kRows>(args, at, tile, slice, pixel_offset, has_part);
    } else {
      store_tile<T, Tile, kRows>(args, at, tile, slice, pixel_offset, has_part);
    }
  };
  if (g.destination.w <= g.destination.c) {
    store_results.template operator()<true>();
  } else {
    store_results.template operator()<false>();
  }
}

}  // namespace haloconv::generic
