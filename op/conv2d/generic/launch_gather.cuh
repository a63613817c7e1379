// Launches fprop and dgrad: packs the filter, then one kernel for each kPhasesOfLaunch phases.
#pragma once

#include <algorithm>

#include "conv2d/generic/gather_direct.cuh"
#include "conv2d/generic/gather_tile.cuh"
#include "conv2d/generic/generic.h"
#include "conv2d/generic/launch.cuh"
#include "conv2d/generic/pack_filter.cuh"
#include "cuda_check.h"

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
unsigned gather_blocks(const GatherArguments<T>& args) {
  return grid_blocks(int64_t{args.tiles} * args.row_tiles * args.geometry.groups);
}

template <class T>
void launch_gather_direct(const GatherArguments<T>& args, int rows, cudaStream_t stream) {
  const unsigned blocks = gather_blocks<T>(args);
  const auto launch = [&](auto kernel) {
    kernel<<<blocks, kDirectThreads, 0, stream>>>(args);
    check_launch("gather_direct");
  };
  switch (rows) {
    case 1:
      return launch(gather_direct_kernel<T, 1>);
    case 2:
      return launch(gather_direct_kernel<T, 2>);
    default:
      return launch(gather_direct_kernel<T, 4>);
  }
}

template <class T>
void launch_gather_tile(const GatherArguments<T>& args, Kernel kernel, cudaStream_t stream) {
  const unsigned blocks = gather_blocks<T>(args);
  with_tile<T>(kernel, [&]<class Tile>() {
    if (args.geometry.channels_last) {
      gather_tile_kernel<T, Tile, Lanes::kReduction><<<blocks, Tile::kThreads, 0, stream>>>(args);
    } else {
      gather_tile_kernel<T, Tile, Lanes::kFixed><<<blocks, Tile::kThreads, 0, stream>>>(args);
    }
  });
  check_launch("gather_tile");
}

template <class T>
void launch_gather(const Conv2dProblem& problem, const Conv2dPlan& plan, const T* source,
                   const T* filter, const T* bias, T* destination, void* workspace,
                   cudaStream_t stream) {
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
    if (plan.kernel == Kernel::kDirect) {
      launch_gather_direct<T>(args, plan.direct_rows, stream);
    } else {
      launch_gather_tile<T>(args, plan.kernel, stream);
    }
  }
}

}  // namespace haloconv::generic
