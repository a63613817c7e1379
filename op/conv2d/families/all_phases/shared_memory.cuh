// Where a block's parts of shared memory are: the ring's stages, each a window and the filter of a
// chunk, then what writes results, then the stages' barriers.
#pragma once

#include <cstdint>

#include "conv2d/families/all_phases/arguments.h"

namespace haloconv::all_phases {

// A column of the product, for those who write it.
struct alignas(16) ColumnPlace {
  int32_t offset;  // elements from a period's first pixel in the first channel
  uint32_t pixel;  // of the period: its row's bit, and its column's bit 16 further
  float bias;      // -0 if there is none, which changes nothing
  int32_t channel;
};

// A period's first pixel in the first channel.
struct alignas(16) PeriodPlace {
  int64_t offset;   // may be before the result
  uint32_t pixels;  // that exist: its rows' bits, and its columns' bits 16 further; or none
};

template <int kColumns>
struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  __device__ unsigned char* window(int32_t stage) const { return base + stage * args.stage_bytes; }
  __device__ unsigned char* filter(int32_t stage) const {
    return window(stage) + args.window_bytes;
  }
  __device__ ColumnPlace* columns(int32_t group) const {
    return reinterpret_cast<ColumnPlace*>(base + args.stages * args.stage_bytes) + group * kColumns;
  }
  __device__ PeriodPlace* periods(int32_t warp) const {
    return reinterpret_cast<PeriodPlace*>(columns(kMathGroups)) + warp * 16;
  }
  __device__ float* slice(int32_t warp) const {
    return reinterpret_cast<float*>(periods(kMathGroups * 4)) + warp * kSliceColumns * kSlicePitch;
  }
  // Of tiles that take lone weights.
  __device__ ColumnFlags* flags(int32_t group) const {
    return reinterpret_cast<ColumnFlags*>(slice(kMathGroups * 4)) + group;
  }
  // Complete when a stage holds a chunk, and when all math warps have read it.
  __device__ uint64_t* full(int32_t stage) const { return barriers() + stage; }
  __device__ uint64_t* empty(int32_t stage) const { return barriers() + kMaxStages + stage; }

 private:
  __device__ uint64_t* barriers() const {
    if constexpr (takes_lone_weights(kColumns)) {
      return reinterpret_cast<uint64_t*>(flags(kMathGroups));
    } else {
      return reinterpret_cast<uint64_t*>(slice(kMathGroups * 4));
    }
  }
};

// Of a number.
struct TilePosition {
  int32_t column_tile, first;  // the first period's position

  __device__ __forceinline__ TilePosition(const Arguments& args, int32_t index, int32_t periods) {
    const int32_t quotient = args.column_tiles.quotient(index);
    column_tile = index - quotient * args.column_tiles.divisor;
    first = quotient * periods;
  }
};

}  // namespace haloconv::all_phases
