#include "conv2d/families/implicit_gemm/pack_filter.h"

#include <algorithm>

#include "conv2d/device/grid.h"
#include "conv2d/device/round.cuh"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::implicit_gemm {

namespace {

constexpr int kThreads = 256;
constexpr int kMostGroups = 32768;  // along a grid's z

// float32 to TF32, others as they are.
template <class T>
__device__ __forceinline__ T rounded(T value) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(round_to_tf32(value));
  } else {
    return value;
  }
}

// Grid: x over units of a group's filter of one phase, y phase, z groups, strided. Neighbouring
// threads have neighbouring channels of the destination, which lie side by side in dgrad's filter.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pack_filter_kernel(const __grid_constant__ Arguments args, const T* __restrict__ filter,
                       T* __restrict__ packed) {
  constexpr int kUnitElements = kUnitBytes / sizeof(T);
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[blockIdx.y];
  const int64_t units = int64_t{phase.reduction / kUnitElements} * g.rows;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= units) return;
  const auto unit = static_cast<int32_t>(i / g.rows);
  const auto row = static_cast<int32_t>(i - int64_t{unit} * g.rows);
  const UnitPlace at(args.channel_units, phase.taps_w, unit, kUnitElements);
  const int64_t r = phase.h.first_tap + int64_t{at.y} * g.axis_h.tap_step;
  const int64_t s = phase.w.first_tap + int64_t{at.x} * g.axis_w.tap_step;
  const T* from =
      filter + row * g.filter.n + at.channel * g.filter.c + r * g.filter.h + s * g.filter.w;
  T* to = packed + phase.packed_offset + int64_t{row} * phase.reduction + unit * kUnitElements;
  for (int32_t group = blockIdx.z; group < g.groups; group += gridDim.z) {
    alignas(kUnitBytes) T values[kUnitElements];
#pragma unroll
    for (int j = 0; j < kUnitElements; ++j) {
      const bool exists = at.channel + j < g.channels;
      values[j] = exists ? rounded(from[group * g.filter_group + j * g.filter.c]) : T(0.0f);
    }
    *reinterpret_cast<uint4*>(to + group * args.filter_group) =
        *reinterpret_cast<const uint4*>(values);
  }
}

// The same as fragments. Grid: x over the lanes' units of a group's fragments of one phase, y
// phase, z groups, strided.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pack_fragments_kernel(const __grid_constant__ Arguments args, int32_t fragments_of_depth,
                          const T* __restrict__ filter, T* __restrict__ packed) {
  constexpr int kUnitElements = kUnitBytes / sizeof(T), kWordElements = kWordBytes / sizeof(T);
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[blockIdx.y];
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (phase.reduction == 0) return;
  const FragmentPlace at(i, fragments_of_depth, phase);
  if (at.depth >= phase.reduction / (2 * kUnitElements)) return;
  const int64_t r = phase.h.first_tap + int64_t{at.y} * g.axis_h.tap_step;
  const int64_t s = phase.w.first_tap + int64_t{at.x} * g.axis_w.tap_step;
  const T* const from = filter + r * g.filter.h + s * g.filter.w;
  T* const to = packed + phase.packed_offset + i * kUnitElements;
  for (int32_t group = blockIdx.z; group < g.groups; group += gridDim.z) {
    alignas(kUnitBytes) T values[kUnitElements];
#pragma unroll
    for (int j = 0; j < kUnitElements; ++j) {
      const FragmentWord word(at.lane, j / kWordElements, args.strips.rows > 0);
      const int32_t row = at.fragment * kFragmentChannels + word.channel;
      const int32_t channel =
          (at.unit + word.unit) * kUnitElements + word.word * kWordElements + j % kWordElements;
      const bool exists = row < g.rows && channel < g.channels;
      values[j] =
          exists ? rounded(from[group * g.filter_group + row * g.filter.n + channel * g.filter.c])
                 : T(0.0f);
    }
    *reinterpret_cast<uint4*>(to + group * args.filter_group) =
        *reinterpret_cast<const uint4*>(values);
  }
}

}  // namespace

void pack_filter(DataType type, const Tile& tile, const Arguments& args, const void* filter,
                 void* packed, cudaStream_t stream) {
  const int32_t rows = has_fragments(args)
                           ? depth_fragments(args, tile.channels) * kFragmentChannels
                           : args.geometry.rows;
  int64_t most = 0;  // elements of a phase
  for (int32_t i = 0; i < args.phase_count; ++i) {
    most = std::max(most, int64_t{args.phases[i].reduction} * rows);
  }
  if (most == 0) return;
  const dim3 grid(grid_blocks(ceil_div(most / unit_elements(type), kThreads)),
                  static_cast<unsigned>(args.phase_count),
                  static_cast<unsigned>(std::min(args.geometry.groups, kMostGroups)));
  with_element(type, [&]<class T>(T) {
    const auto* const from = static_cast<const T*>(filter);
    auto* const to = static_cast<T*>(packed);
    if (has_fragments(args)) {
      pack_fragments_kernel<T>
          <<<grid, kThreads, 0, stream>>>(args, depth_fragments(args, tile.channels), from, to);
    } else {
      pack_filter_kernel<T><<<grid, kThreads, 0, stream>>>(args, from, to);
    }
  });
  check_launch("implicit_gemm pack_filter");
}

}  // namespace haloconv::implicit_gemm
