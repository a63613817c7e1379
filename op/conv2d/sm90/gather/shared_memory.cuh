// Where a block's parts of shared memory are.
#pragma once

#include "conv2d/sm90/gather/arguments.h"

namespace haloconv::sm90 {

// Where one window cell comes from and goes to.
struct __align__(16) CellEntry {
  int32_t source;       // elements from the window's first pixel
  int32_t row, column;  // of the source, from the window's first pixel
  uint16_t image;       // of the window
  uint16_t cell;        // of the stage, or kNoCell
};
static_assert(sizeof(CellEntry) == kEntryBytes);
inline constexpr uint16_t kNoCell = 0xffff;

struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  // The window ring, (stage, k-half, cell) of 16 bytes.
  __device__ unsigned char* stage(int32_t index) const {
    return base + index * args.window_cells * 32;
  }
  // (warp, channel, pixel) results on their way out.
  __device__ float* staging() const { return reinterpret_cast<float*>(base + args.staging_at); }
  __device__ CellEntry* table() const { return reinterpret_cast<CellEntry*>(base + args.table_at); }
  // The cell that each tap meets for the tile's first output; then the first taps once more.
  __device__ uint32_t* tap_cells() const {
    return reinterpret_cast<uint32_t*>(base + args.taps_at);
  }
  // Completes when a stage holds a window.
  __device__ uint64_t* full(int32_t index) const { return barriers() + index; }
  // Completes when both math groups have read a stage.
  __device__ uint64_t* empty(int32_t index) const { return barriers() + kMaxStages + index; }
  // Of one math warp: complete when that warp of every block of the cluster has staged its sums,
  // and when all have read them.
  __device__ uint64_t* staged(int32_t warp) const { return barriers() + 2 * kMaxStages + warp; }
  __device__ uint64_t* drained(int32_t warp) const {
    return barriers() + 2 * kMaxStages + kMathWarps + warp;
  }

 private:
  __device__ uint64_t* barriers() const {
    return reinterpret_cast<uint64_t*>(base + args.barriers_at);
  }
};

}  // namespace haloconv::sm90
