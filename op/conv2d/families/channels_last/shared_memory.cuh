// The ring of stages in a block's shared memory.
//
// A stage holds the source's units, each (pixels x depth), then the filter's. Units are K-major,
// rows swizzled over their length; only dgrad's filter units of 16-bit types, which lie in memory
// as (depth x channels), are MN-major: (depth x 64) for each 64 channels, rows of 128 bytes. (Of
// float32 the instruction takes none such: dgrad has a transposed filter, as fprop has its own.)
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last/tile.h"
#include "cuda/mbarrier.cuh"
#include "cuda/tma.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
struct SharedMemory {
  static constexpr int kUnits = units_of(kTile);
  static constexpr uint32_t kStageBytes = stage_bytes(kTile);
  static constexpr uint32_t kSourceUnit = kTile.pixels * kTile.row_bytes();
  static constexpr uint32_t kFilterUnit = kTile.channels * kTile.row_bytes();
  static constexpr uint32_t kFilter = kTile.pixels * kStageRowBytes;  // where the filter begins

  // None stays here, as one does in staying_kernel.cuh.
  static constexpr uint32_t staying_filter = 0, kStayingUnit = 0;

  uint64_t* full;   // a stage's copies have arrived
  uint64_t* empty;  // all math warps that read it are done
  uint32_t stages;

  __device__ __forceinline__ SharedMemory(unsigned char* base, uint64_t* barriers)
      : full(barriers),
        empty(barriers + kMaxStages),
        stages((shared_address_of(base) + 1023) / 1024 * 1024) {}

  __device__ __forceinline__ uint32_t stage(int32_t index) const {
    return stages + index * kStageBytes;
  }

  // The address of the filter's unit `index` in a stage.
  static __device__ __forceinline__ uint32_t filter_unit(uint32_t stage, uint32_t /*staying*/,
                                                         int index) {
    return stage + kFilter + index * kFilterUnit;
  }
};

}  // namespace haloconv::sm90::channels_last
