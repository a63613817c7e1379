// Weight gradients. The wide tensor, the input, takes the time here too: each of its 16 bytes is
// read once. A block leaves its sums in the workspace, and a second kernel adds those of all
// blocks.
#include <cstdint>

#include "conv2d/device/element.cuh"
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/heads/kernels.h"
#include "conv2d/families/heads/unit.cuh"
#include "cuda/check.h"

namespace haloconv::heads {

namespace {

// Where the blocks' sums lie: (block, output channel, input channel), and behind them (block,
// output channel) for the bias's gradient.
struct Partials {
  float* filter;
  float* bias;

  __host__ __device__ Partials(const Plan& plan, void* workspace)
      : filter(static_cast<float*>(workspace)),
        bias(filter + int64_t{plan.blocks} * plan.outputs * plan.inputs) {}
};

// A thread has a unit of channels, and every so many pixels of its block's. It keeps the sums of
// all output channels in registers.
template <class T, int kOutputs>
__global__ void __launch_bounds__(kBlockThreads, kWgradBlocks)
    heads_wgrad(const __grid_constant__ Plan plan, const __grid_constant__ WgradTensors tensors) {
  constexpr int kChannels = Unit<T>::kChannels;
  constexpr int kEach = kChannels + 1;  // of an output channel; the last is the bias's
  constexpr int kSums = kOutputs * kEach;
  const int32_t units = plan.units, thread = static_cast<int32_t>(threadIdx.x);
  const int32_t row = thread / units, rows = kBlockThreads / units;
  const int32_t unit = thread - row * units;
  const int64_t begin = int64_t{blockIdx.x} * rows * kWgradPixels + row;
  const int64_t step = int64_t{gridDim.x} * rows * kWgradPixels;
  const T* input =
      static_cast<const T*>(tensors.input) + begin * plan.input_step + unit * kChannels;
  const T* grad_output = static_cast<const T*>(tensors.grad_output) + begin * plan.output_step;
  const int64_t input_row = rows * plan.input_step, output_row = rows * plan.output_step;
  const int64_t input_skip = step * plan.input_step - kWgradPixels * input_row;
  const int64_t output_skip = step * plan.output_step - kWgradPixels * output_row;
  float sums[kOutputs][kEach] = {};
  for (int64_t left = row < rows ? plan.pixels - begin : 0; left > 0; left -= step) {
    const auto near = static_cast<int32_t>(min(left, int64_t{kBlockThreads * kWgradPixels}));
    uint4 words[kWgradPixels];
    T values[kWgradPixels][kOutputs];
#pragma unroll
    for (int p = 0; p < kWgradPixels; ++p) {
      const bool exists = p * rows < near;
      words[p] = make_uint4(0, 0, 0, 0);
      if (exists) {
        words[p] = __ldcs(reinterpret_cast<const uint4*>(input));  // no block reads it again
      }
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        values[p][k] = T(0.0f);
        if (exists && k < plan.outputs) {
          values[p][k] = grad_output[k];
        }
      }
      input += input_row;
      grad_output += output_row;
    }
    input += input_skip;
    grad_output += output_skip;
#pragma unroll
    for (int p = 0; p < kWgradPixels; ++p) {
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        const float value = Element<T>::to_float(values[p][k]);
#pragma unroll
        for (int i = 0; i < kChannels; ++i) sums[k][i] += Unit<T>::value(words[p], i) * value;
        sums[k][kChannels] += value;
      }
    }
  }

  // The lower half of the rows adds the sums of the upper half, and so on.
  __shared__ float of_threads[kSums][kBlockThreads / 2];
  for (int32_t left = rows; left > 1;) {
    const int32_t half = (left + 1) / 2;
    if (row >= half && row < left) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        of_threads[i][thread - half * units] = sums[i / kEach][i % kEach];
      }
    }
    __syncthreads();
    if (row < left - half) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[i / kEach][i % kEach] += of_threads[i][thread];
      }
    }
    __syncthreads();
    left = half;
  }

  if (row > 0) return;
  const Partials partials(plan, tensors.workspace);
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) {
    if (k >= plan.outputs) break;
    const int64_t at = int64_t{blockIdx.x} * plan.outputs + k;
    float* const to = partials.filter + at * plan.inputs + unit * kChannels;
#pragma unroll
    for (int i = 0; i < kChannels; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(sums[k][i], sums[k][i + 1], sums[k][i + 2], sums[k][i + 3]);
    }
    if (unit == 0) partials.bias[at] = sums[k][kChannels];
  }
}

// A lane adds the sums of four input channels. The first blocks have the filter's gradient, the
// last the bias's.
template <class T, int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    heads_add_partials(const __grid_constant__ Plan plan,
                       const __grid_constant__ WgradTensors tensors, int32_t filter_blocks) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  const Partials partials(plan, tensors.workspace);
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const bool exists = lane < plan.outputs;
    const float sum =
        sum_partials<kSlices>(partials.bias + lane, plan.outputs, exists ? plan.blocks : 0);
    if (exists && writes) static_cast<T*>(tensors.grad_bias)[lane] = T(sum);
    return;
  }
  const int32_t first = (static_cast<int32_t>(blockIdx.x) * kLanes + lane) * 4;
  const int32_t elements = plan.outputs * plan.inputs;
  const bool exists = first < elements;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(partials.filter + first),
                                           elements / 4, exists ? plan.blocks : 0);
  if (!exists || !writes) return;
  const int32_t k = first / plan.inputs, c = first - k * plan.inputs;
  T* const to = static_cast<T*>(tensors.grad_filter) + k * plan.filter_k + c * plan.filter_c;
  to[0] = T(sum.x);
  to[plan.filter_c] = T(sum.y);
  to[2 * plan.filter_c] = T(sum.z);
  to[3 * plan.filter_c] = T(sum.w);
}

template <class T>
void launch_wgrad_of(const Plan& plan, const WgradTensors& tensors, cudaStream_t stream) {
  const int outputs = computed_outputs(plan.outputs);
  const auto kernel = outputs == 1   ? heads_wgrad<T, 1>
                      : outputs == 2 ? heads_wgrad<T, 2>
                                     : heads_wgrad<T, kMostOutputs>;
  kernel<<<static_cast<unsigned>(plan.blocks), kBlockThreads, 0, stream>>>(plan, tensors);
  check_launch("heads wgrad");
  with_slices(plan.blocks, [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(
        int64_t{plan.outputs} * plan.inputs, tensors.grad_bias == nullptr ? 0 : plan.outputs);
    heads_add_partials<T, kSlices>
        <<<grid.blocks, kReduceThreads, 0, stream>>>(plan, tensors, grid.filter_blocks);
  });
  check_launch("heads wgrad sums");
}

}  // namespace

void launch_wgrad(DataType type, const Plan& plan, const WgradTensors& tensors,
                  cudaStream_t stream) {
  if (type == DataType::kFloat32) return launch_wgrad_of<float>(plan, tensors, stream);
  if (type == DataType::kFloat16) return launch_wgrad_of<__half>(plan, tensors, stream);
  launch_wgrad_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::heads
