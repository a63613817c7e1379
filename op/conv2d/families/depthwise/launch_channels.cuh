// Starts the depthwise kernels for channels innermost; each file instances/channels_*.cu has
// those of one element type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv2d/families/depthwise/channels_kernel.cuh"
#include "conv2d/families/depthwise/channels_wgrad_kernel.cuh"
#include "conv2d/families/depthwise/launch.h"
#include "conv2d/families/depthwise/patches_kernel.cuh"
#include "conv2d/families/depthwise/reduce.cuh"
#include "conv2d/families/depthwise/with_filter.cuh"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::depthwise {

// Whether all pixels begin at 16 bytes, and as many are left of their channels.
template <class T>
bool is_of_16_bytes(const Conv2dProblem& problem, const T* tensor, const Strides& at) {
  constexpr int64_t kElements = 16 / sizeof(T);
  return problem.c % kElements == 0 && at.n % kElements == 0 && at.h % kElements == 0 &&
         at.w % kElements == 0 && reinterpret_cast<uintptr_t>(tensor) % 16 == 0;
}

// Whether two neighbouring channels may be written at once.
template <class T>
bool is_of_pairs(const Patches& shape, const T* tensor, const Strides& at) {
  return shape.channels.divisor % 2 == 0 && at.n % 2 == 0 && at.h % 2 == 0 && at.w % 2 == 0 &&
         reinterpret_cast<uintptr_t>(tensor) % (2 * sizeof(T)) == 0;
}

template <class T>
void launch_patches(const Conv2dProblem& problem, const Patches& shape, const Gather& g,
                    const T* source, const T* filter, const T* bias, const Fusion& fusion,
                    T* destination, cudaStream_t stream) {
  const PatchesArguments<T> args{.source = source,
                                 .filter = filter,
                                 .bias = bias,
                                 .destination = destination,
                                 .shape = shape,
                                 .source_at = g.source,
                                 .destination_at = g.destination,
                                 .filter_group = g.filter_group,
                                 .by_16_bytes = is_of_16_bytes(problem, source, g.source),
                                 .by_pairs = is_of_pairs(shape, destination, g.destination),
                                 .fusion = fusion};
  const auto start = [&]<int kTaps, int kStep, int kUp>() {
    const auto kernel = fusion.is_none() ? depthwise_patches_kernel<T, kTaps, kStep, kUp, false>
                                         : depthwise_patches_kernel<T, kTaps, kStep, kUp, true>;
    kernel<<<grid_blocks(shape.blocks()), shape.threads(), shape.shared_bytes(), stream>>>(args);
  };
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    if constexpr (kStep == 1) {
      if (shape.h.upsampling == 2) return start.template operator()<kTaps, 1, 2>();
    }
    start.template operator()<kTaps, kStep, 1>();
  });
  check_launch("depthwise_patches");
}

template <class T>
void launch_channels(const Conv2dProblem& problem, const Lowered& lowered, const T* source,
                     const T* filter, const T* bias, const Fusion& fusion, T* destination,
                     cudaStream_t stream) {
  const Gather& g = lowered.gather;
  if (const auto* const patches = std::get_if<Patches>(&lowered.shape)) {
    return launch_patches(problem, *patches, g, source, filter, bias, fusion, destination, stream);
  }
  const auto& shape = std::get<DepthwiseNhwc>(lowered.shape);
  const DepthwiseNhwcArguments<T> args{.source = source,
                                       .filter = filter,
                                       .bias = bias,
                                       .destination = destination,
                                       .shape = shape,
                                       .source_at = g.source,
                                       .destination_at = g.destination,
                                       .filter_group = g.filter_group,
                                       .by_16_bytes = is_of_16_bytes(problem, source, g.source),
                                       .fusion = fusion};
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    const auto kernel = fusion.is_none() ? depthwise_nhwc_kernel<T, kTaps, kStep, false>
                                         : depthwise_nhwc_kernel<T, kTaps, kStep, true>;
    const auto bytes = (kSpanStages * shape.stage + kSpanLanes * kTaps * kTaps) * sizeof(T);
    kernel<<<grid_blocks(shape.blocks()), shape.threads(), bytes, stream>>>(args);
  });
  check_launch("depthwise_nhwc");
}

template <class T>
void launch_channels_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                           const T* grad_output, const T* input, T* grad_filter, T* grad_bias,
                           void* workspace, cudaStream_t stream) {
  const auto& shape = std::get<DepthwiseNhwc>(lowered.shape);
  const DepthwiseNhwcWgradArguments<T> args{
      .input = input,
      .grad_output = grad_output,
      .partial = static_cast<float*>(workspace),
      .shape = shape,
      .input_at = problem.input,
      .output_at = problem.output,
      .by_16_bytes = is_of_16_bytes(problem, input, problem.input) &&
                     is_of_16_bytes(problem, grad_output, problem.output),
      .columns = lowered.wgrad.columns,
      .split_tiles = static_cast<int32_t>(ceil_div(shape.tiles, plan.splits))};
  const unsigned grid = grid_blocks(plan.splits * shape.channel_tiles.divisor);
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    const auto bytes = std::max(kSpanStages * shape.stage * sizeof(T), sizeof(BlockSums<kTaps>));
    depthwise_nhwc_wgrad_kernel<T, kTaps, kStep><<<grid, shape.threads(), bytes, stream>>>(args);
  });
  check_launch("depthwise_nhwc_wgrad");
  reduce<T>(plan, lowered.wgrad, grad_filter, grad_bias, workspace, stream);
}

}  // namespace haloconv::depthwise
