// Weight gradients: what sums that reach beyond grad_output do to results near an infinity or NaN,
// undone. Zeros stand for its pixels there, and where such a zero meets a pixel of the input that
// is not finite, their product is NaN.
//
// A warp computes such results once more, as many neighbouring output channels at a time as 16
// bytes have, and of the parts that the pixels were summed in only those whose sums are NaN.
#pragma once

#include <cstring>

#include "conv2d/device/element.cuh"
#include "conv2d/families/first_layers/pixel_box.h"

namespace haloconv::sm90::first_layers {

struct FilterElement {
  int32_t k, c, r, s;
};

// The partial sums of one element, `step` apart.
struct PartialSums {
  const float* first = nullptr;
  int64_t step = 0;
};

// Arguments: the sizes k, c, r, s, n, h, w, p, q, strides, tensors; where an element of the input
// and of the filter's gradient is; parts() of the pixels that were summed by themselves, the boxes
// first_box(part) up to first_box(part + 1) of each, and box_of() one.
template <class T, class Arguments>
class NonfiniteRepair {
 public:
  __device__ __forceinline__ explicit NonfiniteRepair(const Arguments& args) : args_(args) {}

  // Of an element that each of a warp's threads has stored, or not. Without partial sums there is
  // one part.
  __device__ __forceinline__ void run(const FilterElement& own, bool stored,
                                      const PartialSums& partial = {}) {
    const bool exists =
        stored && own.k < args_.k && own.c < args_.c && own.r < args_.r && own.s < args_.s;
    // Where all is NaN or infinite, as after a step that overflowed, hardly any element is left.
    const bool suspected = exists && isnan(to_float(result(own))) && !isnan(sample(own));
    uint32_t lanes = __ballot_sync(~0u, suspected);
#pragma unroll 1
    while (lanes != 0) {
      const int32_t lane = __ffs(static_cast<int32_t>(lanes)) - 1;
      const FilterElement first = {__shfl_sync(~0u, own.k / kVector * kVector, lane),
                                   __shfl_sync(~0u, own.c, lane), __shfl_sync(~0u, own.r, lane),
                                   __shfl_sync(~0u, own.s, lane)};
      const bool member = suspected && own.k / kVector * kVector == first.k && own.c == first.c &&
                          own.r == first.r && own.s == first.s;
      repair(first, own, member, partial);
      lanes &= ~__ballot_sync(~0u, member);
    }
  }

 private:
  static constexpr int32_t kVector = 16 / sizeof(T);  // output channels
  static constexpr int32_t kGroup = 8;                // channels, of which one warp often has all
  static constexpr int32_t kSamples = 8;

  // Of a tap and a part, the channels whose pixels beyond grad_output are not all finite: a bit for
  // each of a group. The last one found is remembered.
  struct Beyond {
    int32_t c = -1, r = 0, s = 0, part = 0;
    uint32_t channels = 0;
  };

  struct Pixel {
    int32_t n, p, q;
  };

  __device__ __forceinline__ T* result(const FilterElement& element) const {
    return static_cast<T*>(args_.grad_filter) + args_.filter_offset(element);
  }

  static __device__ __forceinline__ float to_float(const T* at) {
    return Element<T>::to_float(*at);
  }
  // As it is multiplied.
  static __device__ __forceinline__ float factor(const T* at) {
    return Element<T>::operand(to_float(at));
  }

  // The sum of some of the products that an element is the sum of.
  __device__ __forceinline__ float sample(const FilterElement& element) const {
    const int64_t pixels = int64_t{args_.n} * args_.p * args_.q;
    float sum = 0;
#pragma unroll 4
    for (int32_t i = 0; i < kSamples; ++i) {
      const auto at = static_cast<int32_t>(pixels * (2 * i + 1) / (2 * kSamples));
      const int32_t row = at / args_.q;
      const Pixel pixel = {row / args_.p, row % args_.p, at - row * args_.q};
      sum = fmaf(factor(grad_output(pixel, element.k)), input(pixel, element), sum);
    }
    return sum;
  }

  // The elements of a vector, which begins with `first`, of a warp's members.
  __device__ __forceinline__ void repair(const FilterElement& first, const FilterElement& own,
                                         bool member, const PartialSums& partial) {
    float total = 0;
#pragma unroll 1
    for (int32_t part = 0; part < args_.parts(); ++part) {
      float sum = 0;
      if (member) sum = partial.first == nullptr ? NAN : partial.first[part * partial.step];
      const uint32_t wanted = __ballot_sync(~0u, isnan(sum));
      if (wanted != 0 && meets_beyond(first, part)) {
        const float once_more = sum_of(first, part, own.k - first.k, wanted);
        if (isnan(sum)) sum = once_more;
      }
      total += sum;
      if (__all_sync(~0u, !member || isnan(total))) return;
    }
    if (member && !isnan(total)) *result(own) = T(total);
  }

  // Whether the tap meets something that is not finite where the part's boxes reach beyond
  // grad_output.
  __device__ __forceinline__ bool meets_beyond(const FilterElement& element, int32_t part) {
    const int32_t c = element.c / kGroup * kGroup;
    if (beyond_.c != c || beyond_.r != element.r || beyond_.s != element.s ||
        beyond_.part != part) {
      beyond_ = {c, element.r, element.s, part,
                 channels_beyond({0, c, element.r, element.s}, part)};
    }
    return (beyond_.channels >> (element.c - c) & 1) != 0;
  }

  __device__ __forceinline__ uint32_t channels_beyond(const FilterElement& first,
                                                      int32_t part) const {
    uint32_t channels = 0;
#pragma unroll 1
    for (int32_t i = args_.first_box(part); i < args_.first_box(part + 1); ++i) {
      const PixelBox box = args_.box_of(i);
      if (box.p + box.rows <= args_.p && box.q + box.columns <= args_.q) continue;
      for_each_pixel(box, [&](const Pixel& pixel) {
        if (pixel.n >= args_.n || (pixel.p < args_.p && pixel.q < args_.q)) return;
#pragma unroll
        for (int32_t j = 0; j < kGroup; ++j) {
          const bool exists = first.c + j < args_.c;
          const FilterElement other = {0, exists ? first.c + j : first.c, first.r, first.s};
          if (exists && !isfinite(input(pixel, other))) channels |= 1U << j;
        }
      });
    }
    return __reduce_or_sync(~0u, channels);
  }

  // The sum over a part, of the vector's element that a lane asks for, unless all elements of the
  // lanes in `wanted` are NaN before the part's end.
  __device__ __forceinline__ float sum_of(const FilterElement& first, int32_t part, int32_t element,
                                          uint32_t wanted) const {
    const bool is_wanted = (wanted >> threadIdx.x % 32 & 1) != 0;
    const uint32_t elements = __reduce_or_sync(~0u, is_wanted ? 1U << element : 0);
    float sums[kVector] = {};
#pragma unroll 1
    for (int32_t i = args_.first_box(part); i < args_.first_box(part + 1); ++i) {
      for_each_pixel(args_.box_of(i), [&](const Pixel& pixel) {
        if (pixel.n >= args_.n || pixel.p >= args_.p || pixel.q >= args_.q) return;
        const float of_input = input(pixel, first);
        T values[kVector];
        load_grad_output(pixel, first.k, values);
#pragma unroll
        for (int j = 0; j < kVector; ++j) sums[j] = fmaf(factor(values + j), of_input, sums[j]);
      });
      if ((elements & ~known_nan(sums)) == 0) return NAN;
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[j] += __shfl_xor_sync(~0u, sums[j], distance);
      }
      if (j == element) sum = sums[j];
    }
    return sum;
  }

  // A bit for each of a warp's sums that is NaN, whatever is added.
  static __device__ __forceinline__ uint32_t known_nan(const float (&sums)[kVector]) {
    uint32_t nan = 0, positive = 0, negative = 0;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (isnan(sums[j])) nan |= 1U << j;
      if (sums[j] == INFINITY) positive |= 1U << j;
      if (sums[j] == -INFINITY) negative |= 1U << j;
    }
    return __reduce_or_sync(~0u, nan) |
           (__reduce_or_sync(~0u, positive) & __reduce_or_sync(~0u, negative));
  }

  // A warp's lanes take the pixels of a box in turn.
  template <class Body>
  static __device__ __forceinline__ void for_each_pixel(const PixelBox& box, Body body) {
    const int32_t pixels = box.images * box.rows * box.columns;
#pragma unroll 2
    for (int32_t i = static_cast<int32_t>(threadIdx.x) % 32; i < pixels; i += 32) {
      const int32_t row = i / box.columns, image = row / box.rows;
      body(Pixel{box.n + image, box.p + row - image * box.rows, box.q + i - row * box.columns});
    }
  }

  // Output channels are neighbours, unless the arguments say how far they are apart.
  __device__ __forceinline__ int64_t channel_step() const {
    if constexpr (requires { args_.output_k; }) {
      return args_.output_k;
    } else {
      return 1;
    }
  }

  __device__ __forceinline__ const T* grad_output(const Pixel& pixel, int32_t k) const {
    return static_cast<const T*>(args_.grad_output) + pixel.n * args_.output_n +
           pixel.p * args_.output_p + pixel.q * args_.output_q + k * channel_step();
  }

  // Of the output channels of a vector, zeros beyond the last one.
  __device__ __forceinline__ void load_grad_output(const Pixel& pixel, int32_t k,
                                                   T (&values)[kVector]) const {
    if (channel_step() == 1 && k + kVector <= args_.k) {
      const auto bits = *reinterpret_cast<const uint4*>(grad_output(pixel, k));
      memcpy(values, &bits, sizeof(bits));
      return;
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      values[j] = k + j < args_.k ? *grad_output(pixel, k + j) : T(0.0f);
    }
  }

  // Taps on padding count as zeros.
  __device__ __forceinline__ float input(const Pixel& pixel, const FilterElement& element) const {
    const int32_t h = pixel.p * args_.stride_h - args_.pad_top + element.r * args_.dilation_h;
    const int32_t w = pixel.q * args_.stride_w - args_.pad_left + element.s * args_.dilation_w;
    if (h < 0 || h >= args_.h || w < 0 || w >= args_.w) return 0;
    return factor(static_cast<const T*>(args_.input) +
                  args_.input_offset(pixel.n, h, w, element.c));
  }

  const Arguments& args_;
  Beyond beyond_;
};

// The same by a function of its own, so that what it needs takes no registers from kernels that
// seldom call it.
template <class T, class Arguments>
__device__ __noinline__ void repair_element(const Arguments& args, FilterElement own, bool stored,
                                            PartialSums partial) {
  NonfiniteRepair<T, Arguments>(args).run(own, stored, partial);
}

}  // namespace haloconv::sm90::first_layers
