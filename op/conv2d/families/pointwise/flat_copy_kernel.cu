#include "conv2d/families/pointwise/flat_copy_kernel.h"

#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::pointwise {

namespace {

constexpr int kCopyThreads = 256;

// A thread copies 16 bytes of a channel, which may be of several images.
template <class Bits>
__global__ void __launch_bounds__(kCopyThreads)
    flat_copy_kernel(const __grid_constant__ FlatCopy copy, const FastDiv vectors, int32_t all,
                     const Bits* input, const Bits* grad_output, uint4* to) {
  constexpr int kVector = 16 / sizeof(Bits);
  const auto index = static_cast<int32_t>(blockIdx.x * kCopyThreads + threadIdx.x);
  if (index >= all) return;
  const int32_t channel = vectors.quotient(index);
  const int32_t first = (index - channel * vectors.divisor) * kVector;
  const bool is_input = channel < copy.c;
  const int64_t of_image = is_input ? copy.input_n : copy.output_n;
  const Bits* const from =
      is_input ? input + channel * copy.input_c : grad_output + (channel - copy.c) * copy.output_k;
  const int32_t image = copy.image_pixels.quotient(first);
  int32_t pixel = first - image * copy.image_pixels.divisor;
  const Bits* row = from + image * of_image;
  alignas(16) Bits values[kVector];
#pragma unroll
  for (Bits& value : values) {
    value = __ldg(row + pixel);
    const bool is_last = ++pixel == copy.image_pixels.divisor;
    row += is_last ? of_image : 0;
    pixel = is_last ? 0 : pixel;
  }
  to[index] = *reinterpret_cast<const uint4*>(values);
}

template <class Bits>
void start(const FlatCopy& copy, const void* input, const void* grad_output, void* to,
           cudaStream_t stream) {
  const int32_t vectors = copy.pixels / copy.vector(), all = (copy.c + copy.k) * vectors;
  flat_copy_kernel<Bits>
      <<<static_cast<unsigned>(ceil_div(all, kCopyThreads)), kCopyThreads, 0, stream>>>(
          copy, FastDiv(vectors), all, static_cast<const Bits*>(input),
          static_cast<const Bits*>(grad_output), static_cast<uint4*>(to));
}

}  // namespace

void launch_flat_copy(const FlatCopy& copy, const void* input, const void* grad_output, void* to,
                      cudaStream_t stream) {
  if (copy.element_bytes == 2) {
    start<uint16_t>(copy, input, grad_output, to, stream);
  } else {
    start<uint32_t>(copy, input, grad_output, to, stream);
  }
  check_launch("pointwise flat copy");
}

}  // namespace haloconv::pointwise
