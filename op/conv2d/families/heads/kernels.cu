// The wide tensor takes the time: each of its 16 bytes is read or written once. So that enough of
// it is under way, a thread has four pixels at a time. The narrow tensor costs no time.
#include <cstdint>

#include "conv2d/device/element.cuh"
#include "conv2d/families/heads/kernels.h"
#include "cuda/check.h"

namespace haloconv::heads {

namespace {

constexpr int kSharing = 8;  // threads of a pixel in fprop

// The filter's value for an output and an input channel; zero for outputs that do not exist.
template <class T>
__device__ __forceinline__ float weight_at(const Plan& plan, const Tensors& tensors, int32_t k,
                                           int32_t c) {
  if (k >= plan.outputs) return 0;
  return Element<T>::to_float(
      static_cast<const T*>(tensors.filter)[k * plan.filter_k + c * plan.filter_c]);
}

template <class T>
__device__ __forceinline__ float bias_at(const Tensors& tensors, int32_t channel) {
  if (tensors.bias == nullptr) return 0;
  return Element<T>::to_float(static_cast<const T*>(tensors.bias)[channel]);
}

// A thread multiplies every eighth unit of its pixels' channels; the eight then add their sums.
template <class T, int kOutputs>
__global__ void __launch_bounds__(kBlockThreads, blocks_at_once(kOutputs))
    heads_fprop(const __grid_constant__ Plan plan, const __grid_constant__ Tensors tensors) {
  __shared__ float4 weights[kOutputs][2][kMostInputs / kUnit];  // of each unit's halves
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kOutputs * plan.inputs / 4;
       i += kBlockThreads) {
    const int32_t k = i / (plan.inputs / 4), quarter = i - k * (plan.inputs / 4), c = quarter * 4;
    weights[k][quarter % 2][quarter / 2] =
        make_float4(weight_at<T>(plan, tensors, k, c), weight_at<T>(plan, tensors, k, c + 1),
                    weight_at<T>(plan, tensors, k, c + 2), weight_at<T>(plan, tensors, k, c + 3));
  }
  __syncthreads();
  const auto* const source = static_cast<const T*>(tensors.source);
  auto* const result = static_cast<T*>(tensors.result);
  const int32_t share = static_cast<int32_t>(threadIdx.x) % kSharing;
  const int32_t units = plan.inputs / kUnit;
  constexpr int32_t kAtOnce = kBlockThreads / kSharing * kThreadPixels;
  const int64_t step = int64_t{gridDim.x} * kAtOnce;
  for (int64_t first = int64_t{blockIdx.x} * kAtOnce + threadIdx.x / kSharing * kThreadPixels;
       first - first % (32 / kSharing * kThreadPixels) < plan.pixels; first += step) {
    float sums[kThreadPixels][kOutputs] = {};
    for (int32_t unit = share; unit < units; unit += kSharing) {
      uint4 words[kThreadPixels];
#pragma unroll
      for (int p = 0; p < kThreadPixels; ++p) {
        words[p] = make_uint4(0, 0, 0, 0);
        if (first + p < plan.pixels) {
          words[p] = __ldg(reinterpret_cast<const uint4*>(source + (first + p) * plan.input_step +
                                                          unit * kUnit));
        }
      }
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        const float4 low = weights[k][0][unit], high = weights[k][1][unit];
        const float of[kUnit] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int p = 0; p < kThreadPixels; ++p) {
          const uint32_t pairs[4] = {words[p].x, words[p].y, words[p].z, words[p].w};
#pragma unroll
          for (int i = 0; i < kUnit; ++i) {
            sums[p][k] += Element<T>::value(pairs[i / 2], i % 2) * of[i];
          }
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kThreadPixels; ++p) {
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
#pragma unroll
        for (int distance = 1; distance < kSharing; distance *= 2) {
          sums[p][k] += __shfl_xor_sync(0xffffffff, sums[p][k], distance);
        }
      }
      if (share != p || first + p >= plan.pixels) continue;
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        if (k >= plan.outputs) break;
        result[(first + p) * plan.output_step + k] = T(sums[p][k] + bias_at<T>(tensors, k));
      }
    }
  }
}

// A thread writes one unit of its pixels' channels, whose weights stay in its registers.
template <class T, int kOutputs>
__global__ void __launch_bounds__(kBlockThreads, blocks_at_once(kOutputs))
    heads_dgrad(const __grid_constant__ Plan plan, const __grid_constant__ Tensors tensors) {
  const int32_t units = plan.inputs / kUnit, thread = static_cast<int32_t>(threadIdx.x);
  const int32_t row = thread / units, rows = kBlockThreads / units;
  const int32_t channel = (thread - row * units) * kUnit;
  if (row >= rows) return;
  float weights[kOutputs][kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) weights[k][i] = weight_at<T>(plan, tensors, k, channel + i);
  }
  const auto* const source = static_cast<const T*>(tensors.source);
  auto* const result = static_cast<T*>(tensors.result);
  const int64_t step = int64_t{gridDim.x} * rows * kThreadPixels;
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
      float sums[kUnit];
#pragma unroll
      for (int i = 0; i < kUnit; ++i) sums[i] = bias_at<T>(tensors, channel + i);
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
#pragma unroll
        for (int i = 0; i < kUnit; ++i) sums[i] += values[p][k] * weights[k][i];
      }
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = Element<T>::pair(sums[2 * i], sums[2 * i + 1]);
      }
      *reinterpret_cast<uint4*>(result + pixel * plan.input_step + channel) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

template <class T, int kOutputs>
void launch_outputs(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  const auto kernel =
      plan.direction == Direction::kFprop ? heads_fprop<T, kOutputs> : heads_dgrad<T, kOutputs>;
  kernel<<<static_cast<unsigned>(plan.blocks), kBlockThreads, 0, stream>>>(plan, tensors);
  check_launch("heads");
}

template <class T>
void launch_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  switch (computed_outputs(plan.outputs)) {
    case 1:
      return launch_outputs<T, 1>(plan, tensors, stream);
    case 2:
      return launch_outputs<T, 2>(plan, tensors, stream);
    default:
      return launch_outputs<T, kMostOutputs>(plan, tensors, stream);
  }
}

}  // namespace

void launch_heads(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat16) return launch_of<__half>(plan, tensors, stream);
  launch_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::heads
