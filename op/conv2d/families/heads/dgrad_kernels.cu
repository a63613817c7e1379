// Input gradients. The wide tensor, the result, takes the time: each of its 16 bytes is written
// once. A thread has four pixels at a time. The narrow tensor costs no time.
#include <cstdint>

#include "conv2d/device/element.cuh"
#include "conv2d/families/heads/kernels.h"
#include "conv2d/families/heads/unit.cuh"
#include "cuda/check.h"

namespace haloconv::heads {

namespace {

// A thread writes one unit of its pixels' channels, whose weights stay in its registers.
template <class T, int kOutputs>
__global__ void __launch_bounds__(kBlockThreads, dgrad_blocks(kOutputs))
    heads_dgrad(const __grid_constant__ Plan plan, const __grid_constant__ Tensors tensors) {
  constexpr int kChannels = Unit<T>::kChannels;
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  const int32_t row = thread / plan.units, rows = kBlockThreads / plan.units;
  const int32_t channel = (thread - row * plan.units) * kChannels;
  if (row >= rows) return;
  const auto* const source = static_cast<const T*>(tensors.source);
  auto* const result = static_cast<T*>(tensors.result);
  const int64_t step = int64_t{gridDim.x} * rows * kThreadPixels;
  float weights[kOutputs][kChannels], bias[kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    bias[i] = bias_at<T>(tensors.bias, channel + i);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      weights[k][i] = weight_at<T>(plan, tensors.filter, k, channel + i);
    }
  }

  for (int64_t first = int64_t{blockIdx.x} * rows * kThreadPixels + row; first < plan.pixels;
       first += step) {
    float values[kThreadPixels][kOutputs];
#pragma unroll
    for (int p = 0; p < kThreadPixels; ++p) {
      const int64_t pixel = first + p * rows;
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        values[p][k] = 0;
        if (pixel < plan.pixels && k < plan.outputs) {
          values[p][k] = Element<T>::to_float(source[pixel * plan.output_step + k]);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kThreadPixels; ++p) {
      const int64_t pixel = first + p * rows;
      if (pixel >= plan.pixels) break;
      float sums[kChannels];
#pragma unroll
      for (int i = 0; i < kChannels; ++i) sums[i] = bias[i];
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
#pragma unroll
        for (int i = 0; i < kChannels; ++i) sums[i] += values[p][k] * weights[k][i];
      }
      // The cache need not keep what no kernel reads soon.
      __stcs(reinterpret_cast<uint4*>(result + pixel * plan.input_step + channel),
             Unit<T>::of(sums));
    }
  }
}

template <class T>
void launch_dgrad_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  const int outputs = computed_outputs(plan.outputs);
  const auto kernel = outputs == 1   ? heads_dgrad<T, 1>
                      : outputs == 2 ? heads_dgrad<T, 2>
                                     : heads_dgrad<T, kMostOutputs>;
  kernel<<<static_cast<unsigned>(plan.blocks), kBlockThreads, 0, stream>>>(plan, tensors);
  check_launch("heads dgrad");
}

}  // namespace

void launch_dgrad(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat32) return launch_dgrad_of<float>(plan, tensors, stream);
  if (type == DataType::kFloat16) return launch_dgrad_of<__half>(plan, tensors, stream);
  launch_dgrad_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::heads
