#include "conv2d/families/all_phases/pack.h"

#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/device/with_element.h"
#include "conv2d/families/all_phases/places.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::all_phases {

namespace {

constexpr int kPackThreads = 128;

// 16 bytes of what is multiplied.
template <class T>
__device__ __forceinline__ uint4
unit_of(const typename Element<T>::template Pixels<1> (&values)[Element<T>::kPerCell]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t terms[1];
    Element<T>::words(values, i, 0, false, terms);
    words[i] = terms[0];
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// A column's weights of a unit of source channels, and which of them are finite.
template <class T>
__device__ __forceinline__ void pack_weights(const Arguments& args, int32_t tile_columns,
                                             int32_t number, int32_t unit, unsigned char* packed) {
  using Of = Element<T>;
  constexpr int kPerCell = Of::kPerCell;
  const int32_t tile = number / tile_columns, column = number - tile * tile_columns;
  const auto [product, first] = args.columns_of(tile, tile_columns);
  const bool is_column = first + column < args.columns;
  const ColumnOf of = args.column_of(is_column ? first + column : 0);
  const int32_t group = args.group_channels.quotient(of.channel);
  const T* const filter = filter_of<T>(args, product, of);
  const int32_t chunk = unit / kChunkUnits, of_chunk = unit - chunk * kChunkUnits;
  const int32_t shifts = args.h.shifts * args.w.shifts;
  // 16-byte units of columns, halves of the instruction's depth, halves of the chunk and shifts.
  unsigned char* to = packed + (int64_t{tile} * args.chunks + chunk) * args.filter_bytes +
                      of_chunk / 2 * (tile_columns * 32) + column / 8 * 256 + of_chunk % 2 * 128 +
                      column % 8 * 16;
  int32_t count = 0, lone = 0;  // weights that are not finite, and the number of the last one
  unsigned char* of_lone = to;
  for (int32_t shift = 0; shift < shifts; ++shift, to += tile_columns * 64) {
    const int32_t u = shift / args.w.shifts, v = shift - u * args.w.shifts;
    const int32_t r = of.row + u * args.h.stride, s = of.column + v * args.w.stride;
    const bool exists = is_column && r < args.h.taps && s < args.w.taps;
    const T* const tap = filter + r * args.filter_r + s * args.filter_s;
    typename Of::template Pixels<1> weights[kPerCell];
#pragma unroll
    for (int i = 0; i < kPerCell; ++i) {
      const int32_t k = unit * kPerCell + i;
      Of::template load<false>(
          tap + k * args.filter_k, weights[i],
          exists && k < args.source_channels && args.group_sources.quotient(k) == group);
    }
    *reinterpret_cast<uint4*>(to) = unit_of<T>(weights);
#pragma unroll
    for (int i = 0; i < kPerCell; ++i) {
      if (isfinite(Of::value_of(weights[i]))) continue;
      ++count;
      lone = shift * kPerCell + i;
      of_lone = to;
    }
  }
  uint32_t flag = kAllFinite;
  if (count > 0) flag = kSeveralNotFinite;
  if (count == 1 && takes_lone_weights(tile_columns)) {
    flag = flag_of_lone(lone);
    using Packed = std::conditional_t<sizeof(T) == 4, float, T>;
    auto* const at = reinterpret_cast<Packed*>(of_lone) + lone % kPerCell;
    *at = Packed(static_cast<float>(*at) < 0 ? -1.0f : 1.0f);
  }
  packed[args.flags_at + int64_t{number} * (args.chunks * kChunkUnits) + unit] =
      static_cast<unsigned char>(flag);
}

// A position's unit of channels.
template <class T>
__device__ __forceinline__ void pack_pixel(const Arguments& args, int32_t position, int32_t unit) {
  using Of = Element<T>;
  constexpr int kPerCell = Of::kPerCell;
  const T* from = static_cast<const T*>(args.source);
  const bool exists = find_pixel(args, position, from);
  from += unit * kPerCell * args.source_c;
  typename Of::template Pixels<1> pixels[kPerCell];
#pragma unroll
  for (int i = 0; i < kPerCell; ++i) {
    Of::template load<false>(from, pixels[i], exists && unit * kPerCell + i < args.source_channels);
    from += args.source_c;
  }
  static_cast<uint4*>(args.packed_source)[int64_t{unit} * args.packed_positions + position] =
      unit_of<T>(pixels);
}

// Neighbouring threads have neighbouring columns of the filter or, behind these, positions of the
// source.
template <class T>
__global__ void __launch_bounds__(kPackThreads)
    pack_kernel(const __grid_constant__ Arguments args, const int32_t tile_columns,
                const int32_t filter_blocks, unsigned char* packed) {
  allow_dependents();
  const auto block = static_cast<int32_t>(blockIdx.x), unit = static_cast<int32_t>(blockIdx.y);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (block < filter_blocks) {
    const int32_t number = block * kPackThreads + thread;
    if (number >= args.column_tiles.divisor * tile_columns) return;
    pack_weights<T>(args, tile_columns, number, unit, packed);
  } else {
    const int32_t position = (block - filter_blocks) * kPackThreads + thread;
    if (position < args.packed_positions) pack_pixel<T>(args, position, unit);
  }
}

}  // namespace

void launch_pack(const Arguments& args, const Tile& tile, DataType type, void* workspace,
                 cudaStream_t stream) {
  const int64_t columns = int64_t{args.column_tiles.divisor} * tile.columns;
  const int64_t filter_blocks = ceil_div(columns, kPackThreads);
  const int64_t blocks = filter_blocks + ceil_div(args.packed_positions, kPackThreads);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(args.chunks * kChunkUnits));
  with_element(type, [&](auto element) {
    pack_kernel<decltype(element)>
        <<<grid, kPackThreads, 0, stream>>>(args, tile.columns, static_cast<int32_t>(filter_blocks),
                                            static_cast<unsigned char*>(workspace));
  });
  check_launch("all_phases pack");
}

}  // namespace haloconv::all_phases
