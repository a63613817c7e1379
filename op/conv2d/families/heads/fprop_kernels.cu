// Forward passes. The wide tensor, the input, takes the time: each of its 16 bytes is read once. So
// that enough of it is under way, a thread has four pixels at a time, and loads what it multiplies
// next before it multiplies. The narrow tensor costs no time.
#include <cstdint>

#include "conv2d/device/element.cuh"
#include "conv2d/families/heads/kernels.h"
#include "conv2d/families/heads/unit.cuh"
#include "cuda/check.h"

namespace haloconv::heads {

namespace {

// Adds the values of kSharing neighbouring threads. Each step halves the values that a thread still
// adds. In the end a thread has the sums of kValues / kSharing neighbouring values, of those with
// index share * kValues / kSharing and on; if there are fewer values than threads, several threads
// have the same.
template <int kSharing, int kValues>
__device__ __forceinline__ void add_shares(float (&values)[kValues], int32_t share) {
  int left = kValues;
#pragma unroll
  for (int distance = kSharing / 2; distance > 0; distance /= 2) {
    if (left == 1) {
      values[0] += __shfl_xor_sync(0xffffffff, values[0], distance);
      continue;
    }
    left /= 2;
    const bool keeps_upper = (share & distance) != 0;
#pragma unroll
    for (int i = 0; i < kValues / 2; ++i) {
      if (i >= left) break;
      const float kept = keeps_upper ? values[i + left] : values[i];
      const float given = keeps_upper ? values[i] : values[i + left];
      values[i] = kept + __shfl_xor_sync(0xffffffff, given, distance);
    }
  }
}

// Adds what the threads of each pixel have, and writes the results. A warp has neighbouring pixels,
// so that those of a thread are as far apart as the warp has groups of threads; a pixel's sums
// follow each other.
template <int kSharing, class T, int kOutputs>
__device__ __forceinline__ void write_pixels(const Plan& plan, const Tensors& tensors,
                                             float (&sums)[kThreadPixels * kOutputs], int64_t first,
                                             int32_t share) {
  constexpr int kSums = kThreadPixels * kOutputs;
  constexpr int kEach = kSums > kSharing ? kSums / kSharing : 1;  // sums that a thread has
  constexpr int kSame = kSums > kSharing ? 1 : kSharing / kSums;  // threads that have the same
  // The compiler would keep what all cases of `sharing` make of it in registers, before all loops.
  asm volatile("" : "+r"(share));
  add_shares<kSharing>(sums, share);
  if (share % kSame != 0) return;
  const int32_t index = share / kSame * kEach;
  int64_t pixel = first + index / kOutputs * (32 / kSharing);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i > 0 && i % kOutputs == 0) pixel += 32 / kSharing;
    const int32_t k = (index + i) % kOutputs;
    if (k >= plan.outputs || pixel >= plan.pixels) continue;
    static_cast<T*>(tensors.result)[pixel * plan.output_step + k] =
        T(sums[i] + bias_at<T>(tensors.bias, k));
  }
}

// plan.sharing threads have a pixel's units in turn, and then add their sums. Neighbours among the
// groups of so many threads have neighbouring pixels, so that a warp's loads are contiguous.
template <class T, int kOutputs>
__global__ void __launch_bounds__(kBlockThreads, kFpropBlocks)
    heads_fprop(const __grid_constant__ Plan plan, const __grid_constant__ Tensors tensors) {
  constexpr int kChannels = Unit<T>::kChannels, kQuarters = kChannels / 4;
  __shared__ float4 weights[kOutputs][kQuarters][kMostInputs / kChannels];  // four channels each
  const auto* const source = static_cast<const T*>(tensors.source);
  const int32_t thread = static_cast<int32_t>(threadIdx.x), lane = thread % 32;
  const int32_t sharing = plan.sharing, share = lane & (sharing - 1);
  const int32_t between = 32 / sharing;  // pixels from one of a thread's to the next
  constexpr int32_t kWarps = kBlockThreads / 32;
  const int32_t of_warp = between * kThreadPixels;
  const int64_t step = int64_t{gridDim.x} * kWarps * of_warp;
  // The pixels from the warp's first on, and the thread's first among them.
  int64_t left = plan.pixels - (int64_t{blockIdx.x} * kWarps + thread / 32) * of_warp;
  const int32_t own = lane / sharing;

  // The pixels that are loaded next lie from here on, and so many of them exist. Instead of what
  // does not exist, the last that does is loaded again.
  const T* row = source + (plan.pixels - left + own) * plan.input_step;
  auto exist = static_cast<int32_t>(min(left - own, int64_t{of_warp}));
  uint4 next[kThreadPixels];
  const auto load = [&](int32_t unit) {
    const T* const from = row + min(unit, plan.units - 1) * kChannels;
#pragma unroll
    for (int p = 0; p < kThreadPixels; ++p) {
      next[p] = __ldcs(reinterpret_cast<const uint4*>(  // no block reads it again
          from + int64_t{min(p * between, exist - 1)} * plan.input_step));
    }
  };
  load(share);

  for (int32_t i = thread; i < kOutputs * plan.inputs / 4; i += kBlockThreads) {
    const int32_t k = i / (plan.inputs / 4), quarter = i - k * (plan.inputs / 4), c = quarter * 4;
    const auto at = [&](int32_t channel) { return weight_at<T>(plan, tensors.filter, k, channel); };
    weights[k][quarter % kQuarters][quarter / kQuarters] =
        make_float4(at(c), at(c + 1), at(c + 2), at(c + 3));
  }
  __syncthreads();

  for (; left > 0; left -= step) {
    float sums[kThreadPixels * kOutputs] = {};
    for (int32_t units = 0; units < plan.units; units += sharing) {
      uint4 words[kThreadPixels];
#pragma unroll
      for (int p = 0; p < kThreadPixels; ++p) words[p] = next[p];
      const int32_t unit = units + share;
      const bool ends = units + sharing >= plan.units;
      if (ends) {
        row += step * plan.input_step;
        exist = static_cast<int32_t>(min(left - step - own, int64_t{of_warp}));
      }
      load(ends ? share : unit + sharing);
      if (unit >= plan.units) continue;
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
#pragma unroll
        for (int quarter = 0; quarter < kQuarters; ++quarter) {
          const float4 weight = weights[k][quarter][unit];
          const float of[] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
          for (int p = 0; p < kThreadPixels; ++p) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              sums[p * kOutputs + k] += Unit<T>::value(words[p], quarter * 4 + i) * of[i];
            }
          }
        }
      }
    }
    const int64_t first = plan.pixels - left + own;
    switch (sharing) {
      case 1:
        write_pixels<1, T, kOutputs>(plan, tensors, sums, first, share);
        break;
      case 2:
        write_pixels<2, T, kOutputs>(plan, tensors, sums, first, share);
        break;
      case 4:
        write_pixels<4, T, kOutputs>(plan, tensors, sums, first, share);
        break;
      case 8:
        write_pixels<8, T, kOutputs>(plan, tensors, sums, first, share);
        break;
      default:
        write_pixels<kMostSharing, T, kOutputs>(plan, tensors, sums, first, share);
    }
  }
}

template <class T>
void launch_fprop_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  const int outputs = computed_outputs(plan.outputs);
  const auto kernel = outputs == 1   ? heads_fprop<T, 1>
                      : outputs == 2 ? heads_fprop<T, 2>
                                     : heads_fprop<T, kMostOutputs>;
  kernel<<<static_cast<unsigned>(plan.blocks), kBlockThreads, 0, stream>>>(plan, tensors);
  check_launch("heads fprop");
}

}  // namespace

void launch_fprop(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat32) return launch_fprop_of<float>(plan, tensors, stream);
  if (type == DataType::kFloat16) return launch_fprop_of<__half>(plan, tensors, stream);
  launch_fprop_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::heads
