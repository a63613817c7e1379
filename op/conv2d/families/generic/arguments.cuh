// Kernel arguments of the generic family, passed by value.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/device/wgrad_arguments.cuh"
#include "conv2d/epilogue/fusion.h"
#include "conv2d/geometry/geometry.h"

namespace haloconv::generic {

// fprop and dgrad.
template <class T>
struct GatherArguments {
  using Acc = AccumulatorOf<T>;

  const T* source;
  const T* bias;  // one value per destination channel, or null
  T* destination;
  Acc* packed;           // (group, phase, reduction rounded up to the tile's step, packed_pitch)
  int64_t packed_group;  // elements from one group's packed filter to the next
  int32_t packed_pitch;  // rows rounded up to the tile's
  uint32_t row_tiles;    // tiles along a group's rows
  uint32_t tiles;        // tiles of the launch's phases along pixels
  Gather geometry;
  int32_t phase_count;
  Phase phases[kPhasesOfLaunch];
  Fusion fusion;
};

}  // namespace haloconv::generic
