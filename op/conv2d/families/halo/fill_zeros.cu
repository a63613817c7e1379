#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/fill_zeros.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::halo {

namespace {

constexpr int kZeroThreads = 256;
constexpr int kPixelsOfThread = 4;

template <class T>
__device__ __forceinline__ float load_or(const void* values, int64_t index, float otherwise) {
  return values == nullptr ? otherwise : Element<T>::to_float(static_cast<const T*>(values)[index]);
}

// Grid: x pixels of a plane, y planes.
template <class T>
__global__ void __launch_bounds__(kZeroThreads)
    fill_zeros_kernel(const __grid_constant__ ZeroArguments args) {
  const auto first = static_cast<int32_t>(blockIdx.x * kZeroThreads + threadIdx.x);
  const auto step = static_cast<int32_t>(gridDim.x * kZeroThreads);
  for (int64_t plane = blockIdx.y; plane < args.planes; plane += gridDim.y) {
    const int64_t image = plane / args.channels;
    const int64_t channel = plane - image * args.channels;
    const int64_t plane_at = image * args.strides.n + channel * args.strides.c;
    const float sum =
        (0 + load_or<T>(args.bias, channel, -0.0f)) * load_or<T>(args.fusion.scale, channel, 1) +
        load_or<T>(args.fusion.shift, channel, -0.0f);
    for (int32_t pixel = first; pixel < args.pixels; pixel += step) {
      const int32_t h = args.columns.quotient(pixel);
      const int32_t w = pixel - h * args.columns.divisor;
      if (!args.is_zero(h, w)) continue;
      const int64_t at = plane_at + h * args.strides.h + w * args.strides.w;
      float value = sum + load_or<T>(args.fusion.residual, at, -0.0f);
      with_activation(args.fusion.activation, [&](auto activation) { value = activation(value); });
      static_cast<T*>(args.destination)[at] = T(value);
    }
  }
}

}  // namespace

template <class T>
void launch_fill_zeros(const ZeroArguments& args, cudaStream_t stream) {
  const int64_t across = ceil_div(args.pixels, kZeroThreads * kPixelsOfThread);
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(across, 1024)),
                  static_cast<unsigned>(std::min<int64_t>(args.planes, 65535)));
  fill_zeros_kernel<T><<<grid, kZeroThreads, 0, stream>>>(args);
  check_launch("halo fill_zeros");
}

template void launch_fill_zeros<float>(const ZeroArguments&, cudaStream_t);
template void launch_fill_zeros<PreciseFloat>(const ZeroArguments&, cudaStream_t);
template void launch_fill_zeros<__half>(const ZeroArguments&, cudaStream_t);
template void launch_fill_zeros<__nv_bfloat16>(const ZeroArguments&, cudaStream_t);

}  // namespace haloconv::halo
