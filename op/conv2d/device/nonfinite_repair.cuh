// Weight gradients with channels innermost: what sums that reach beyond grad_output do to results
// near an infinity or NaN, undone. Zeros stand for its pixels there, and where such a zero meets a
// pixel of the input that is not finite, their product is NaN. A warp computes such results once
// more.
#pragma once

#include "conv2d/device/element.cuh"

namespace haloconv::sm90 {

struct FilterElement {
  int32_t k, c, r, s;
};

// Remembers whether a thread stored a sum that may be NaN.
class NonfiniteWatch {
 public:
  __device__ __forceinline__ void see(const float4& sums) {
    const float both = fmaf(sums.x, 0, sums.y * 0) + fmaf(sums.z, 0, sums.w * 0);
    seen_ += both;
  }
  // Of a warp, all its threads.
  __device__ __forceinline__ bool any() const { return __any_sync(~0u, isnan(seen_)); }

 private:
  float seen_ = 0;  // or NaN
};

// Arguments: the sizes k, c, r, s, n, h, w, p, q, the pixels p_end and q_end that sums reach to,
// strides, tensors; and where an element of the input and of the filter's gradient is.
template <class T, class Arguments>
class NonfiniteRepair {
 public:
  __device__ __forceinline__ explicit NonfiniteRepair(const Arguments& args) : args_(args) {}

  // Of an element that each of a warp's threads has stored, or not.
  __device__ __forceinline__ void run(const FilterElement& own, bool stored) const {
    Beyond beyond;
    run(own, stored, beyond);
  }

  // Of a quad: two neighbouring channels, and those of the output channel 8 further.
  __device__ __forceinline__ void run_quad(const FilterElement& first, bool stored) const {
    Beyond beyond;
#pragma unroll 1
    for (int32_t i = 0; i < 4; ++i) {
      run({first.k + i / 2 * 8, first.c + i % 2, first.r, first.s}, stored, beyond);
    }
  }

 private:
  static constexpr int32_t kGroup = 8;  // neighbouring channels, of which one warp often has all

  // Of a tap, the channels whose pixels beyond grad_output are not all finite: a bit for each of a
  // group. Found once for all elements of a warp that need it, one group being remembered.
  struct Beyond {
    FilterElement group = {0, -1, 0, 0};
    uint32_t channels = 0;
  };

  // Where all is NaN, as after a step that overflowed, most elements end at the first test.
  __device__ __forceinline__ void run(const FilterElement& own, bool stored, Beyond& beyond) const {
    const bool exists =
        stored && own.k < args_.k && own.c < args_.c && own.r < args_.r && own.s < args_.s;
    const bool suspected = exists && isnan(to_float(result(own))) && !isnan(product_amid(own));
    uint32_t lanes = __ballot_sync(~0u, suspected);
#pragma unroll 1
    for (; lanes != 0; lanes &= lanes - 1) {
      const int32_t lane = __ffs(static_cast<int32_t>(lanes)) - 1;
      const FilterElement element = {__shfl_sync(~0u, own.k, lane), __shfl_sync(~0u, own.c, lane),
                                     __shfl_sync(~0u, own.r, lane), __shfl_sync(~0u, own.s, lane)};
      find(element, beyond);
      if ((beyond.channels >> element.c % kGroup & 1) == 0) continue;
      const float repaired = sum(element);
      if (threadIdx.x % 32 == 0 && !isnan(repaired)) *result(element) = T(repaired);
    }
  }

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

  // One of the products that an element is the sum of.
  __device__ __forceinline__ float product_amid(const FilterElement& element) const {
    const int32_t n = args_.n / 2, p = args_.p / 2, q = args_.q / 2;
    return grad_output(n, element.k, p, q) * input(n, element, p, q);
  }

  // Makes `beyond` that of the element's group.
  __device__ __forceinline__ void find(const FilterElement& element, Beyond& beyond) const {
    const int32_t first = element.c / kGroup * kGroup;
    const FilterElement& known = beyond.group;
    if (known.c == first && known.r == element.r && known.s == element.s) return;
    beyond.group = {0, first, element.r, element.s};
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t columns_beyond = args_.q_end - args_.q;
    const int32_t beside = args_.p * columns_beyond;  // of an image, to the right of its rows
    const int32_t pixels = beside + (args_.p_end - args_.p) * args_.q_end;
    uint32_t channels = 0;
#pragma unroll 1
    for (int32_t n = 0; n < args_.n; ++n) {
#pragma unroll 1
      for (int32_t i = lane; i < pixels; i += 32) {
        const bool is_beside = i < beside;
        const int32_t width = is_beside ? columns_beyond : args_.q_end;
        const int32_t in_part = is_beside ? i : i - beside;
        const int32_t p = in_part / width + (is_beside ? 0 : args_.p);
        const int32_t q = in_part % width + (is_beside ? args_.q : 0);
#pragma unroll 1
        for (int32_t j = 0; j < kGroup && first + j < args_.c; ++j) {
          const FilterElement other = {0, first + j, element.r, element.s};
          if (!isfinite(input(n, other, p, q))) channels |= 1U << j;
        }
      }
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      channels |= __shfl_xor_sync(~0u, channels, distance);
    }
    beyond.channels = channels;
  }

  // Over grad_output's pixels, until it is NaN.
  __device__ __forceinline__ float sum(const FilterElement& element) const {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t pixels = args_.p * args_.q;
    float sum = 0;
#pragma unroll 1
    for (int32_t n = 0; n < args_.n; ++n) {
#pragma unroll 1
      for (int32_t i = lane; __any_sync(~0u, i < pixels); i += 32) {
        const int32_t p = i / args_.q, q = i % args_.q;
        if (i < pixels) sum = fmaf(grad_output(n, element.k, p, q), input(n, element, p, q), sum);
        if (__any_sync(~0u, isnan(sum))) return NAN;
      }
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    }
    return sum;
  }

  __device__ __forceinline__ float grad_output(int64_t n, int32_t k, int32_t p, int32_t q) const {
    return factor(static_cast<const T*>(args_.grad_output) + n * args_.output_n +
                  p * args_.output_p + q * args_.output_q + k);
  }

  // Taps on padding count as zeros.
  __device__ __forceinline__ float input(int64_t n, const FilterElement& element, int32_t p,
                                         int32_t q) const {
    const int32_t h = p * args_.stride_h - args_.pad_top + element.r * args_.dilation_h;
    const int32_t w = q * args_.stride_w - args_.pad_left + element.s * args_.dilation_w;
    if (h < 0 || h >= args_.h || w < 0 || w >= args_.w) return 0;
    return factor(static_cast<const T*>(args_.input) + args_.input_offset(n, h, w, element.c));
  }

  const Arguments& args_;
};

}  // namespace haloconv::sm90
