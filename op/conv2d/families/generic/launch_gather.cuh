// Launches fprop and dgrad: packs the filter, then one kernel for each kPhasesOfLaunch phases.
#pragma once

#include <algorithm>

#include "conv2d/families/generic/launch.h"
#include "conv2d/families/generic/launch_gather_kernel.cuh"
#include "conv2d/families/generic/pack_filter.cuh"

namespace haloconv::generic {

template <class T>
void pack_filter(const GatherArguments<T>& args, const T* filter, int step, cudaStream_t stream) {
  int64_t elements = 1;
  for (int i = 0; i < args.phase_count; ++i) {
    elements = std::max(elements, round_up(args.phases[i].reduction, step) * args.packed_pitch);
  }
  const dim3 grid(grid_blocks(std::min<int64_t>(ceil_div(elements, kPackThreads), 1024)),
                  args.phase_count, std::min(args.geometry.groups, 32768));
  pack_filter_kernel<T><<<grid, kPackThreads, 0, stream>>>(args, filter, step);
  check_launch("pack_filter");
}

template <class T>
void launch_gather(const Plan& plan, const Lowered& lowered, const T* source, const T* filter,
                   const T* bias, const Fusion& fusion, T* destination, void* workspace,
                   cudaStream_t stream) {
  if (!fusion.is_none() && !takes_fusion(plan)) {
    throw std::logic_error("haloconv: a fusion was given to a plan whose kernel takes none");
  }
  const PackedShape& packed = lowered.packed;
  GatherArguments<T> args{};
  args.source = source;
  args.bias = bias;
  args.destination = destination;
  args.packed = static_cast<AccumulatorOf<T>*>(workspace);
  args.packed_group = packed.group_elements;
  args.packed_pitch = static_cast<int32_t>(packed.pitch);
  args.row_tiles = static_cast<uint32_t>(packed.pitch / packed.rows);
  args.geometry = lowered.gather;
  args.fusion = fusion;
  for (const GatherLaunch& launch : lowered.launches) {
    args.phase_count = launch.phase_count;
    std::copy_n(launch.phases, launch.phase_count, args.phases);
    args.tiles = grid_blocks(launch.tiles);
    pack_filter<T>(args, filter, packed.step, stream);
    if (fusion.is_none()) {
      launch_gather_kernel<T, false>(args, plan, stream);
    } else {
      launch_fused_gather<T>(args, plan, stream);
    }
  }
}

}  // namespace haloconv::generic
