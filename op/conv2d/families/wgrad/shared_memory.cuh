// Where a block's parts of shared memory are.
#pragma once

#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

// A bundle: lane_channels() channels of a plane.
struct BundleEntry {
  int64_t offset;    // bytes from a segment's first pixel
  int32_t column;    // of the input, from the segment's
  int32_t target;    // bytes from the line's start
  int32_t channels;  // that the group has from the first on
};

// A segment of the strip whose window a warp loads.
struct SegmentEntry {
  int64_t offset;       // bytes from the input's start to the filter's first row and cell 0
  int32_t row, column;  // of the input there
  int32_t end;          // input columns from here on count as zeros; 0: there is no such segment
};

static_assert(sizeof(BundleEntry) == kBundleBytes && sizeof(SegmentEntry) <= kSegmentBytes);

struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  // A ring of lines, (plane, column, channel) of 16-byte cells.
  __device__ unsigned char* lines() const { return base; }
  // Cells that are zero, as many as an instruction reads of a pixel.
  __device__ unsigned char* zeros() const { return base + args.zeros_at; }
  // A ring of stages of grad_output, (row, segment, pixel), or boxes: (segment, box, row, pixel).
  __device__ unsigned char* grad_output(int32_t stage) const {
    return base + args.grad_at + stage * args.stage_bytes;
  }
  __device__ BundleEntry* bundles() const {
    return reinterpret_cast<BundleEntry*>(base + args.bundles_at);
  }
  // The segments of the strip that a warp loads.
  __device__ SegmentEntry* segments(int32_t warp, int32_t in_strip) const {
    return reinterpret_cast<SegmentEntry*>(base + args.segments_at) + warp * in_strip;
  }
  // By how many bytes a stage's segments begin after their boxes.
  __device__ int32_t* shifts(int32_t stage) const {
    return reinterpret_cast<int32_t*>(base + args.shifts_at) + stage * kBoxSegments;
  }
  // Completes when a stage, and the ring of lines, hold a strip.
  __device__ uint64_t* full(int32_t stage) const { return barriers() + stage; }
  // Complete when both math groups have read a stage's strip: of the stage, and of the lines.
  __device__ uint64_t* stage_read(int32_t stage) const { return barriers() + kMaxStages + stage; }
  __device__ uint64_t* lines_read(int32_t stage) const {
    return barriers() + 2 * kMaxStages + stage;
  }

 private:
  __device__ uint64_t* barriers() const {
    return reinterpret_cast<uint64_t*>(base + args.barriers_at);
  }
};

}  // namespace haloconv::wgrad
