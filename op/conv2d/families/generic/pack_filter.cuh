// The filter in the order in which fprop and dgrad reduce: (group, phase, reduction, row), zero in
// the padding of reduction and rows.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/device/site.cuh"
#include "conv2d/families/generic/arguments.cuh"

namespace haloconv::generic {

inline constexpr int kPackThreads = 256;

// Grid: x over a group's packed elements of one phase, strided; y phase; z groups, strided.
template <class T>
__global__ void __launch_bounds__(kPackThreads)
    pack_filter_kernel(const __grid_constant__ GatherArguments<T> args,
                       const T* __restrict__ filter, int32_t step) {
  const Gather& g = args.geometry;
  const Phase& phase = args.phases[blockIdx.y];
  const int64_t rounded = (int64_t{phase.reduction} + step - 1) / step * step;
  const int64_t elements = rounded * args.packed_pitch;
  for (int64_t group = blockIdx.z; group < g.groups; group += gridDim.z) {
    for (int64_t i = int64_t{blockIdx.x} * kPackThreads + threadIdx.x; i < elements;
         i += int64_t{gridDim.x} * kPackThreads) {
      const int32_t index = static_cast<int32_t>(i / args.packed_pitch);
      const int32_t row = static_cast<int32_t>(i % args.packed_pitch);
      AccumulatorOf<T> value = 0;
      if (index < phase.reduction && row < g.rows) {
        const ReductionIndex at(g, phase, index);
        const int64_t y = phase.h.first_tap + int64_t{at.y} * g.axis_h.tap_step;
        const int64_t x = phase.w.first_tap + int64_t{at.x} * g.axis_w.tap_step;
        value = load(filter + group * g.filter_group + row * g.filter.n + at.channel * g.filter.c +
                     y * g.filter.h + x * g.filter.w);
      }
      args.packed[group * args.packed_group + phase.packed_offset * args.packed_pitch + i] = value;
    }
  }
}

}  // namespace haloconv::generic
