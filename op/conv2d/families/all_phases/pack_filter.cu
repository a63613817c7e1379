#include "conv2d/families/all_phases/pack_filter.h"

#include "conv2d/device/element.cuh"
#include "conv2d/device/with_element.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::all_phases {

namespace {

constexpr int kPackThreads = 128;

// A thread packs 16 bytes: a column's weights of some source channels. Neighbouring threads have
// neighbouring columns.
template <class T>
__global__ void __launch_bounds__(kPackThreads)
    pack_filter_kernel(const __grid_constant__ Arguments args, const int32_t tile_columns,
                       unsigned char* packed) {
  using Of = Element<T>;
  constexpr int kPerCell = Of::kPerCell;
  allow_dependents();
  const int32_t number = static_cast<int32_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (number >= args.column_tiles.divisor * tile_columns) return;
  const int32_t tile = number / tile_columns, column = number - tile * tile_columns;
  const ColumnOf of = args.column_of(number < args.columns ? number : 0);
  const int32_t group = args.group_channels.quotient(of.channel);
  const T* const filter = static_cast<const T*>(args.filter) +
                          (of.channel - group * args.group_channels.divisor) * args.filter_c;
  const auto unit = static_cast<int32_t>(blockIdx.y);
  const int32_t chunk = unit / kChunkUnits, of_chunk = unit - chunk * kChunkUnits;
  const int32_t shifts = args.h.shifts * args.w.shifts;
  // 16-byte units of columns, halves of the instruction's depth, halves of the chunk and shifts.
  unsigned char* to = packed + (int64_t{tile} * args.chunks + chunk) * args.filter_bytes +
                      of_chunk / 2 * (tile_columns * 32) + column / 8 * 256 + of_chunk % 2 * 128 +
                      column % 8 * 16;
  for (int32_t shift = 0; shift < shifts; ++shift, to += tile_columns * 64) {
    const int32_t u = shift / args.w.shifts, v = shift - u * args.w.shifts;
    const int32_t r = of.row + u * args.h.stride, s = of.column + v * args.w.stride;
    const bool exists = number < args.columns && r < args.h.taps && s < args.w.taps;
    const T* const tap = filter + r * args.filter_r + s * args.filter_s;
    typename Of::template Pixels<1> weights[kPerCell];
#pragma unroll
    for (int i = 0; i < kPerCell; ++i) {
      const int32_t k = unit * kPerCell + i;
      Of::template load<false>(
          tap + k * args.filter_k, weights[i],
          exists && k < args.source_channels && args.group_sources.quotient(k) == group);
    }
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t terms[1];
      Of::words(weights, i, 0, false, terms);
      words[i] = terms[0];
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace

void launch_pack_filter(const Arguments& args, const Tile& tile, DataType type, void* packed,
                        cudaStream_t stream) {
  const int64_t columns = int64_t{args.column_tiles.divisor} * tile.columns;
  const dim3 grid(static_cast<unsigned>(ceil_div(columns, kPackThreads)),
                  static_cast<unsigned>(args.chunks * kChunkUnits));
  with_element(type, [&](auto element) {
    pack_filter_kernel<decltype(element)><<<grid, kPackThreads, 0, stream>>>(
        args, tile.columns, static_cast<unsigned char*>(packed));
  });
  check_launch("all_phases pack_filter");
}

}  // namespace haloconv::all_phases
