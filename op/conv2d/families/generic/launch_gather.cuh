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
void launch_gather(const Conv2dProblem& problem, const Conv2dPlan& plan, const T* source,
                   const T* filter, const T* bias, const Fusion& fusion, T* destination,
                   void* workspace, cudaStream_t stream) {
  if (!fusion.is_none() && !takes_fusion(plan)) {
    throw std::logic_error("haloconv: a fusion was given to a plan whose kernel takes none");
  }
  const std::vector<Phase> phases = make_phases(problem, plan.direction);
  const PackedShape packed = packed_shape(problem, plan, phases);
  GatherArguments<T> args{};
  args.source = source;
  args.bias = bias;
  args.destination = destination;
  args.packed = static_cast<AccumulatorOf<T>*>(workspace);
  args.packed_group = packed.group_elements;
  args.packed_pitch = static_cast<int32_t>(packed.pitch);
  args.row_tiles = static_cast<uint32_t>(packed.pitch / packed.rows);
  args.geometry = make_gather(problem, plan.direction);
  args.fusion = fusion;

  int64_t packed_rows = 0;
  for (size_t first = 0; first < phases.size(); first += kPhasesOfLaunch) {
    args.phase_count =
        static_cast<int32_t>(std::min<size_t>(kPhasesOfLaunch, phases.size() - first));
    int64_t tiles = 0;
    for (int i = 0; i < args.phase_count; ++i) {
      Phase& phase = args.phases[i] = phases[first + i];
      phase.first_tile = static_cast<int32_t>(tiles);
      phase.packed_offset = packed_rows;
      tiles += ceil_div(phase.pixels, packed.columns);
      packed_rows += round_up(phase.reduction, packed.step);
    }
    args.tiles = grid_blocks(tiles);
    pack_filter<T>(args, filter, packed.step, stream);
    if (fusion.is_none()) {
      launch_gather_kernel<T, false>(args, plan, stream);
    } else {
      launch_fused_gather<T>(args, plan, stream);
    }
  }
}

}  // namespace haloconv::generic
