// A math thread's pixels in a stage of grad_output: four neighbours at a time, of two rows eight
// apart.
#pragma once

#include "conv2d/sm90/this_thread.cuh"
#include "conv2d/sm90/vector_access.cuh"
#include "conv2d/sm90/wgrad/shared_memory.cuh"

namespace haloconv::sm90::wgrad {

// Rows with their segments side by side, as load warps copy them; kBoxes: as the copy engine does.
template <bool kBoxes>
class StagePixels;

template <>
class StagePixels<false> {
 public:
  // Of a row of the stage, the thread's segment of it, and the first pixel of that.
  __device__ __forceinline__ StagePixels(const Arguments& args, const SharedMemory& shared,
                                         int32_t row, int32_t segment, int32_t pixel)
      : args_(args),
        shared_(shared),
        first_((row * kSegments + segment) * args.segment_cells * 16 + pixel * 4) {}

  __device__ __forceinline__ void load_first(int32_t stage, float (&low)[4], float (&high)[4]) {
    at_ = shared_address(shared_.grad_output(stage)) + first_;
    load_shared(at_, low);
    load_shared(at_ + eight_rows(), high);
  }

  __device__ __forceinline__ void load_next_if(bool wanted, float (&low)[4], float (&high)[4]) {
    at_ += 16;
    load_shared_if(wanted, at_, low);
    load_shared_if(wanted, at_ + eight_rows(), high);
  }

 private:
  __device__ __forceinline__ uint32_t eight_rows() const {
    return 8 * kSegments * args_.segment_cells * 16;
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t first_;  // bytes from a stage's start
  uint32_t at_ = 0;
};

template <>
class StagePixels<true> {
 public:
  __device__ __forceinline__ StagePixels(const Arguments& args, const SharedMemory& shared,
                                         int32_t row, int32_t segment, int32_t pixel)
      : args_(args),
        shared_(shared),
        first_(pixel * 4),
        first_row_(args.row_in_boxes(row, segment)) {}

  __device__ __forceinline__ void load_first(int32_t stage, float (&low)[4], float (&high)[4]) {
    row_ = shared_address(shared_.grad_output(stage)) + first_row_;
    pixel_ = first_ + shared_.shifts(stage)[this_thread() % kSegments];
#pragma unroll
    for (int i = 0; i < 4; ++i) low[i] = high[i] = 0;
    load_if(true, low, high);
  }

  __device__ __forceinline__ void load_next_if(bool wanted, float (&low)[4], float (&high)[4]) {
    pixel_ += 16;
    load_if(wanted, low, high);
  }

 private:
  __device__ __forceinline__ void load_if(bool wanted, float (&low)[4], float (&high)[4]) const {
    const uint32_t eight_rows = 8 * args_.box_columns * 4;
    // Not kept: a register too many.
    const uint32_t turn = args_.turn_at(row_);
    const uint32_t at = row_ + args_.in_boxes(pixel_, turn);
    if (args_.row_maps > 1) {  // four pixels may begin at 8 bytes of 16
      const uint32_t second = row_ + args_.in_boxes(pixel_ + 8, turn);
      load_shared_pairs_if(wanted, at, second, low);
      load_shared_pairs_if(wanted, at + eight_rows, second + eight_rows, high);
    } else {
      load_shared_if(wanted, at, low);
      load_shared_if(wanted, at + eight_rows, high);
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t first_;      // pixel, in bytes, but for the segment's shift
  const uint32_t first_row_;  // bytes from a stage's start
  uint32_t row_ = 0, pixel_ = 0;
};

}  // namespace haloconv::sm90::wgrad
