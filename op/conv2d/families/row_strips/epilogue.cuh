// Complete rows of the destination: a bias is added, and they are written.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/row_strips/mainloop.cuh"

namespace haloconv::row_strips {

// A thread's sums of a row in one instruction.
using RowSums = float[kRowSums];

template <class T>
class Epilogue {
 public:
  __device__ __forceinline__ Epilogue(const Arguments& args, const SharedMemory& shared,
                                      int32_t thread, int32_t rank)
      : args_(args),
        channel_(thread % 4 * 2),
        pixel_(pixel_of(thread, rank)),
        bias_(shared_address(shared.bias()) + channel_ * 4) {}

  // Begins the rows of a band of an image.
  __device__ __forceinline__ void begin(int32_t band, int32_t image) {
    const int32_t x = band * kBand + pixel_;
    columns_ = args_.width - x;
    to_ = static_cast<T*>(args_.destination) + image * args_.destination_n +
          channel_ * args_.destination_c + x;
  }

  __device__ __forceinline__ void write(const RowSums& sums, int instruction, int32_t row) const {
    T* const row_to = to_ + row * args_.destination_h + instruction * kInstructionPixels;
    const int32_t columns = columns_ - instruction * kInstructionPixels;
    // The compiler would keep multiples of the step for the next row, in too many registers.
    int64_t step = args_.destination_c;
    asm volatile("" : "+l"(step));
    T* to = row_to;
#pragma unroll
    for (int i = 0; i < kRowSums / 2; ++i) {
      const int after = i / 2 * 8 + i % 2;  // channels after the thread's first
      const bool exists = channel_ + after < args_.rows;
      float bias[1];
      load_shared(bias_ + after * 4, bias);
      const int at = i / 2 * 4 + i % 2;
      Element<T>::template store<1>(to, {sums[at] + bias[0]}, exists && columns > 0);
      Element<T>::template store<1>(to + 8, {sums[at + 2] + bias[0]}, exists && columns > 8);
      to += i % 2 == 0 ? step : 7 * step;
    }
  }

 private:
  const Arguments& args_;
  const int32_t channel_, pixel_;
  const uint32_t bias_;
  int32_t columns_ = 0;  // from the thread's first on
  T* to_ = nullptr;
};

}  // namespace haloconv::row_strips
