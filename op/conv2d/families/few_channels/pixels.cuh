// A math thread's part of the matrix instructions' register operand: the pixels of a stage, as the
// load warps left them, become what the instruction multiplies.
//
// Rows g and g + 8 of an instruction's operand are neighbouring pixels, so that one load brings
// both, and their products leave as 8 bytes.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/device/round.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"

namespace haloconv::few_channels {

inline constexpr int kWarpPixels = 16;  // in an instruction

// The first of a math thread's pixels of a window: two, and kWarpPixels further on two more.
__device__ __forceinline__ int32_t pixel_of_thread(int32_t thread) {
  return thread / 32 * 2 * kWarpPixels + thread % 32 / 4 * 2;
}

// For 16-bit types: channels 2t, 2t + 1, 2t + 8 and 2t + 9 of a step, t = thread % 4. A word has
// two pixels of a channel, but the operand's words have two channels of a pixel.
template <class T>
class Pixels {
 public:
  // Of a stage, by step and instruction.
  struct Loaded {
    uint32_t words[kSteps][2][4];
  };

  __device__ __forceinline__ Pixels(const Arguments& args, const SharedMemory& shared,
                                    int32_t thread)
      : args_(args),
        channel_(thread % 4 * 2),
        ring_at_(shared_address(shared.ring()) +
                 (channel_ * kPitch + pixel_of_thread(thread)) * 2) {}

  // Where the next source row begins in its stages.
  __device__ __forceinline__ void begin(int32_t image, int32_t row, int32_t column) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      row_at_[i] = ring_at_ + (i * kPitch + args_.shift(image, channel_ + i, row, column)) * 2;
    }
  }

  __device__ __forceinline__ void load(int32_t stage, Loaded& pixels) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int channel = i * kStepChannels<T> + k / 2 * 8;
          load_shared_bits(
              row_at_[k % 2] + stage * kStageBytes + (channel * kPitch + j * kWarpPixels) * 2,
              pixels.words[i][j][k]);
        }
      }
    }
  }

  // Of a step, for an instruction.
  static __device__ __forceinline__ uint4 operand(const Loaded& pixels, int step, int instruction) {
    const auto& words = pixels.words[step][instruction];
    return make_uint4(Element<T>::halves(words[0], words[1], false),
                      Element<T>::halves(words[0], words[1], true),
                      Element<T>::halves(words[2], words[3], false),
                      Element<T>::halves(words[2], words[3], true));
  }

 private:
  const Arguments& args_;
  const int32_t channel_;
  const uint32_t ring_at_;  // this thread's pixels of stage 0
  uint32_t row_at_[2] = {};
};

// In TF32: channels t and t + 4 of a step, t = thread % 4.
template <>
class Pixels<float> {
 public:
  struct Loaded {
    float low[kSteps][2][2], high[kSteps][2][2];
  };

  __device__ __forceinline__ Pixels(const Arguments& args, const SharedMemory& shared,
                                    int32_t thread)
      : args_(args),
        channel_(thread % 4),
        ring_at_(shared_address(shared.ring()) +
                 (channel_ * kPitch + pixel_of_thread(thread)) * 4) {}

  __device__ __forceinline__ void begin(int32_t image, int32_t row, int32_t column) {
    row_at_ = ring_at_ + args_.shift(image, channel_, row, column) * 4;
  }

  __device__ __forceinline__ void load(int32_t stage, Loaded& pixels) const {
    const uint32_t at = row_at_ + stage * kStageBytes;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint32_t pixels_at = at + (i * 8 * kPitch + j * kWarpPixels) * 4;
        load_shared(pixels_at, pixels.low[i][j]);
        load_shared(pixels_at + 4 * kPitch * 4, pixels.high[i][j]);
      }
    }
  }

  static __device__ __forceinline__ uint4 operand(const Loaded& pixels, int step, int instruction) {
    const auto& low = pixels.low[step][instruction];
    const auto& high = pixels.high[step][instruction];
    return make_uint4(round_to_tf32(low[0]), round_to_tf32(low[1]), round_to_tf32(high[0]),
                      round_to_tf32(high[1]));
  }

 private:
  const Arguments& args_;
  const int32_t channel_;
  const uint32_t ring_at_;  // this thread's pixels of stage 0
  uint32_t row_at_ = 0;
};

}  // namespace haloconv::few_channels
