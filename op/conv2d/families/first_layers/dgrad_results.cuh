// Writes a strip's rows of the input's gradient.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "conv2d/families/first_layers/dgrad_arguments.h"
#include "cuda/group_barrier.cuh"

namespace haloconv::sm90::first_layers {

// Whether any of eight results is NaN.
template <class T>
__device__ __forceinline__ bool any_half_is_nan(const uint4& values) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const auto of = [](const uint32_t& both) { return reinterpret_cast<const Pair&>(both); };
  const Pair most =
      __hmax2_nan(__hmax2_nan(of(values.x), of(values.y)), __hmax2_nan(of(values.z), of(values.w)));
  return !__hbeq2(most, most);
}

// Whether any of 16 bytes' results is NaN.
template <class T>
__device__ __forceinline__ bool any_is_nan(const uint4& values) {
  if constexpr (std::is_same_v<T, float>) {
    const auto is_nan = [](uint32_t word) { return isnan(__uint_as_float(word)); };
    return is_nan(values.x) || is_nan(values.y) || is_nan(values.z) || is_nan(values.w);
  } else {
    return any_half_is_nan<T>(values);
  }
}

// Writes a warpgroup's results, by the place of its threads' sums in the instruction. A part's rows
// are written one after the other, beginning with the first: where they go is worked out once, and
// moves on by a row. Of kHeld vectors of a thread the addresses stay in registers.
template <class T, int kChannels, int kBlocks, int kHeld>
class RowWriter {
 public:
  __device__ __forceinline__ RowWriter(const DgradArguments& args, unsigned char* staging,
                                       int32_t group)
      : args_(args),
        staging_(reinterpret_cast<T*>(staging)),
        group_(group),
        thread_(static_cast<int32_t>(threadIdx.x) % 128) {}

  // Whether a NaN may be among the results that this thread wrote.
  __device__ __forceinline__ bool wrote_nan() const { return wrote_nan_; }

  // `row` counts the part's rows.
  __device__ __forceinline__ void write(const StripPart& part, int32_t row,
                                        const float (&sums)[kBlocks][kChannels / 2]) {
    const int32_t h = args_.first_h(part, row);
    if (row == 0) {
      find_places(part, h);
      find_vectors(part, h);
    } else if (args_.shift_step != 0) {
      move_places();
      find_vectors(part, h);
    }
    const int32_t beyond = 8 * args_.position_elements;
    const int32_t of_block = kBlockColumns * args_.position_elements;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      int32_t place = place_[i];
      // Otherwise the compiler takes it apart before the loop of rows, and registers spill.
      asm volatile("" : "+r"(place));
      T* const to = staging_ + (place & kPlaceMask);
      const int sum = i / 2 * 4 + i % 2;
      if (place < 0) continue;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        to[block * of_block] = T(sums[block][sum]);
        to[block * of_block + beyond] = T(sums[block][sum + 2]);
      }
    }
    // Others write what threads read here only two rows later, after the next row's barrier.
    group_barrier_sync<128>(group_ + 1);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const uint32_t held = held_[i];
      const auto to_h = h + static_cast<int32_t>(held >> 8);
      if (static_cast<uint32_t>(to_h) < static_cast<uint32_t>(args_.h)) {
        store(thread_ + i * 128, to_[i], held & kWhole);
      }
      to_[i] += args_.stride_h.divisor * args_.input_h;
    }
#pragma unroll 1
    for (int32_t i = thread_ + kHeld * 128; i < args_.all_vectors(); i += 128) {
      const LineVector vector = args_.vector(part, h, i, kUnit);
      const int32_t to_h = h + vector.rest_h;
      if (to_h < 0 || to_h >= args_.h) continue;
      store(i, address_of(part, h, vector), vector.exists);
    }
    swap_buffers();
  }

 private:
  static constexpr int kUnit = 16 / sizeof(T);  // elements that are written together
  static constexpr uint32_t kWhole = (1u << kUnit) - 1;
  static constexpr int kPlaces = kChannels / 4;
  static constexpr int kShiftAt = 20;
  static constexpr int32_t kPlaceMask = (1 << kShiftAt) - 1;

  __device__ __forceinline__ void find_places(const StripPart& part, int32_t h) {
    const int32_t lane = thread_ % 32, in_strip = thread_ / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      const LinePlace of = args_.line_place(i / 2 * 8 + lane % 4 * 2 + i % 2);
      const int32_t shift = args_.shift(part, h + of.rest_h, of.line, kUnit);
      const int32_t place =
          (of.rest_h * args_.lines.divisor + of.line) * args_.staged_elements(kUnit) + of.element +
          in_strip * args_.position_elements + shift;
      place_[i] = of.rest_h < args_.stride_h.divisor ? shift << kShiftAt | place : -1;
    }
  }

  // To the next row.
  __device__ __forceinline__ void move_places() {
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      if (place_[i] < 0) continue;
      const int32_t shift = place_[i] >> kShiftAt, next = shift + args_.shift_step & kUnit - 1;
      place_[i] += (next - shift) * ((1 << kShiftAt) + 1);
    }
  }

  __device__ __forceinline__ void find_vectors(const StripPart& part, int32_t h) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      held_[i] = 0;
      to_[i] = nullptr;
      if (thread_ + i * 128 >= args_.all_vectors()) continue;
      const LineVector vector = args_.vector(part, h, thread_ + i * 128, kUnit);
      held_[i] = vector.exists | static_cast<uint32_t>(vector.rest_h) << 8;
      to_[i] = address_of(part, h, vector);
    }
  }

  // Of elements that exist the address is in the gradient.
  __device__ __forceinline__ T* address_of(const StripPart& part, int32_t h,
                                           const LineVector& vector) const {
    return static_cast<T*>(args_.grad_input) + part.image * args_.input_n +
           (h + vector.rest_h) * args_.input_h + vector.line * args_.input_c + vector.element;
  }

  // Vector `i` of the staged ones to a row of the gradient.
  __device__ __forceinline__ void store(int32_t i, T* to, uint32_t exists) {
    if (exists == 0) return;
    const uint4 values = *reinterpret_cast<const uint4*>(staging_ + i * kUnit);
    if (args_.mends && any_is_nan<T>(values)) wrote_nan_ = true;
    if (exists == kWhole) {
      *reinterpret_cast<uint4*>(to) = values;
      return;
    }
    const uint32_t words[] = {values.x, values.y, values.z, values.w};
#pragma unroll
    for (int j = 0; j < kUnit; ++j) {
      if ((exists >> j & 1) == 0) continue;
      if constexpr (sizeof(T) == 4) {
        to[j] = __uint_as_float(words[j]);
      } else {
        reinterpret_cast<uint16_t*>(to)[j] = static_cast<uint16_t>(words[j / 2] >> j % 2 * 16);
      }
    }
  }

  __device__ __forceinline__ void swap_buffers() {
    const int32_t elements = args_.staging_bytes() / static_cast<int32_t>(sizeof(T));
    staging_ += is_second_ ? -elements : elements;
    is_second_ = !is_second_;
  }

  const DgradArguments& args_;
  T* staging_;
  const int32_t group_, thread_;
  bool is_second_ = false, wrote_nan_ = false;
  int32_t place_[kPlaces];    // in a buffer, and by 2^20 how far it is shifted; or -1
  T* to_[kHeld + 1];          // where a row's vectors go
  uint32_t held_[kHeld + 1];  // which of their elements exist, and by 2^8 the rest of h
};

}  // namespace haloconv::sm90::first_layers
