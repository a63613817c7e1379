// The math warpgroups' register operand: a thread's pixels of grad_output, read from a stage. A
// thread has two rows (output channels), 8 apart. In each it has one segment of float32, or two of
// a 16-bit type, whose pixels are its columns of the operand.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/wgrad/shared_memory.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::wgrad {

// kBoxes: whether the copy engine brought them in boxes, or the load warps copied rows with their
// segments side by side: stage_layout.h.
template <class T, bool kBoxes>
class StagePixels;

// Four pixels of float32 at a time, for two steps.
struct FloatPixels {
  static constexpr int kSteps = 2;
  float low[4], high[4];

  // Not rounded.
  __device__ __forceinline__ uint4 values(int step) const {
    return make_uint4(__float_as_uint(low[2 * step]), __float_as_uint(high[2 * step]),
                      __float_as_uint(low[2 * step + 1]), __float_as_uint(high[2 * step + 1]));
  }
  __device__ __forceinline__ uint4 operand(int step) const {
    return make_uint4(round_to_tf32(low[2 * step]), round_to_tf32(high[2 * step]),
                      round_to_tf32(low[2 * step + 1]), round_to_tf32(high[2 * step + 1]));
  }
  __device__ __forceinline__ void add_to(float (&row_sums)[2]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      row_sums[0] += low[i];
      row_sums[1] += high[i];
    }
  }
};

// Eight of a 16-bit type, of two segments each, for four steps.
template <class T>
struct HalfPixels {
  static constexpr int kSteps = 4;
  uint32_t low[2][4], high[2][4];

  __device__ __forceinline__ uint4 operand(int step) const {
    const auto pixel = [&](const uint32_t (&row)[2][4], bool second) {
      return Element<T>::halves(row[0][step], row[1][step], second);
    };
    return make_uint4(pixel(low, false), pixel(high, false), pixel(low, true), pixel(high, true));
  }
  __device__ __forceinline__ void add_to(float (&row_sums)[2]) const {
#pragma unroll
    for (int segment = 0; segment < 2; ++segment) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          row_sums[0] += Element<T>::value(low[segment][i], half);
          row_sums[1] += Element<T>::value(high[segment][i], half);
        }
      }
    }
  }
};

template <>
class StagePixels<float, false> {
  static constexpr int kSegments = segments_of(sizeof(float));

 public:
  using Pixels = FloatPixels;

  // Of a row of the stage, the thread's column of the operand, and its first pixel of a segment.
  __device__ __forceinline__ StagePixels(const Arguments& args, const SharedMemory& shared,
                                         int32_t row, int32_t segment, int32_t pixel)
      : args_(args),
        shared_(shared),
        first_((row * kSegments + segment) * args.segment_cells * 16 + pixel * 4) {}

  __device__ __forceinline__ void load_first(int32_t stage, Pixels& to) {
    at_ = shared_address(shared_.grad_output(stage)) + first_;
    load_shared(at_, to.low);
    load_shared(at_ + eight_rows(), to.high);
  }

  __device__ __forceinline__ void load_next_if(bool wanted, Pixels& to) {
    at_ += 16;
    load_shared_if(wanted, at_, to.low);
    load_shared_if(wanted, at_ + eight_rows(), to.high);
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

template <class T>
  requires(sizeof(T) == 2)
class StagePixels<T, false> {
  static constexpr int kSegments = segments_of(sizeof(T));

 public:
  using Pixels = HalfPixels<T>;

  __device__ __forceinline__ StagePixels(const Arguments& args, const SharedMemory& shared,
                                         int32_t row, int32_t column, int32_t pixel)
      : args_(args),
        shared_(shared),
        first_((row * args.row_cells(kSegments) + 2 * column * args.segment_cells) * 16 +
               pixel * static_cast<int32_t>(sizeof(T))) {}

  __device__ __forceinline__ void load_first(int32_t stage, Pixels& to) {
    at_ = shared_address(shared_.grad_output(stage)) + first_ - 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) to.low[0][i] = to.low[1][i] = to.high[0][i] = to.high[1][i] = 0;
    load_next_if(true, to);
  }

  __device__ __forceinline__ void load_next_if(bool wanted, Pixels& to) {
    at_ += 16;
    const uint32_t eight_rows = 8 * args_.row_cells(kSegments) * 16;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t at = at_ + i * args_.segment_cells * 16;
      load_shared_bits_if(wanted, at, to.low[i]);
      load_shared_bits_if(wanted, at + eight_rows, to.high[i]);
    }
  }

 private:
  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t first_;  // bytes from a stage's start
  uint32_t at_ = 0;
};

template <>
class StagePixels<float, true> {
 public:
  using Pixels = FloatPixels;

  __device__ __forceinline__ StagePixels(const Arguments& args, const SharedMemory& shared,
                                         int32_t row, int32_t segment, int32_t pixel)
      : args_(args),
        shared_(shared),
        first_(pixel * 4),
        first_row_(args.row_in_boxes(row, segment)) {}

  __device__ __forceinline__ void load_first(int32_t stage, Pixels& to) {
    row_ = shared_address(shared_.grad_output(stage)) + first_row_;
    pixel_ = first_ + shared_.shifts(stage)[this_thread() % kBoxSegments];
#pragma unroll
    for (int i = 0; i < 4; ++i) to.low[i] = to.high[i] = 0;
    load_if(true, to);
  }

  __device__ __forceinline__ void load_next_if(bool wanted, Pixels& to) {
    pixel_ += 16;
    load_if(wanted, to);
  }

 private:
  __device__ __forceinline__ void load_if(bool wanted, Pixels& to) const {
    const uint32_t eight_rows = 8 * args_.box_columns * 4;
    // Recomputed here: keeping it live would spill.
    const uint32_t swizzle = args_.swizzle_at(row_);
    const uint32_t at = row_ + args_.in_boxes(pixel_, swizzle);
    if (args_.row_maps > 1) {  // four pixels may begin at 8 bytes of 16
      const uint32_t second = row_ + args_.in_boxes(pixel_ + 8, swizzle);
      load_shared_pairs_if(wanted, at, second, to.low);
      load_shared_pairs_if(wanted, at + eight_rows, second + eight_rows, to.high);
    } else {
      load_shared_if(wanted, at, to.low);
      load_shared_if(wanted, at + eight_rows, to.high);
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t first_;      // pixel, in bytes, but for the segment's shift
  const uint32_t first_row_;  // bytes from a stage's start
  uint32_t row_ = 0, pixel_ = 0;
};

template <bool kBoxes>
class StagePixels<PreciseFloat, kBoxes> : public StagePixels<float, kBoxes> {
 public:
  using StagePixels<float, kBoxes>::StagePixels;
};

}  // namespace haloconv::wgrad
