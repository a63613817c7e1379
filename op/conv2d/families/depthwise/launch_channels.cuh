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
void launch_patches(const Conv2dProblem& problem, const Lowered& lowered,
                    const GatherTensors<T>& tensors, cudaStream_t stream) {
  const auto& shape = std::get<Patches>(lowered.shape);
  auto args = gather_arguments<PatchesArguments<T>>(lowered, shape, tensors);
  args.by_16_bytes = is_of_16_bytes(problem, args.source, args.source_at);
  args.by_pairs = is_of_pairs(shape, args.destination, args.destination_at);
  const auto start = [&]<int kTaps, int kStep, int kUp>() {
    const auto kernel = args.fusion.is_none()
                            ? depthwise_patches_kernel<T, kTaps, kStep, kUp, false>
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
void launch_channels(const Conv2dProblem& problem, const Lowered& lowered,
                     const GatherTensors<T>& tensors, cudaStream_t stream) {
  if (std::holds_alternative<Patches>(lowered.shape)) {
    return launch_patches(problem, lowered, tensors, stream);
  }
  const auto& shape = std::get<DepthwiseNhwc>(lowered.shape);
  auto args = gather_arguments<DepthwiseNhwcArguments<T>>(lowered, shape, tensors);
  args.by_16_bytes = is_of_16_bytes(problem, args.source, args.source_at);
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    const auto kernel = args.fusion.is_none() ? depthwise_nhwc_kernel<T, kTaps, kStep, false>
                                              : depthwise_nhwc_kernel<T, kTaps, kStep, true>;
    const auto bytes = (kSpanStages * shape.stage + kSpanLanes * kTaps * kTaps) * sizeof(T);
    kernel<<<grid_blocks(shape.blocks()), shape.threads(), bytes, stream>>>(args);
  });
  check_launch("depthwise_nhwc");
}

template <class T>
void launch_channels_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                           const WgradTensors<T>& tensors, cudaStream_t stream) {
  const auto& shape = std::get<DepthwiseNhwc>(lowered.shape);
  auto args =
      wgrad_arguments<DepthwiseNhwcWgradArguments<T>>(problem, plan, lowered, shape, tensors);
  args.by_16_bytes = is_of_16_bytes(problem, args.input, args.input_at) &&
                     is_of_16_bytes(problem, args.grad_output, args.output_at);
  const unsigned grid = grid_blocks(plan.splits * shape.channel_tiles.divisor);
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    const auto bytes = std::max(kSpanStages * shape.stage * sizeof(T), sizeof(BlockSums<kTaps>));
    depthwise_nhwc_wgrad_kernel<T, kTaps, kStep><<<grid, shape.threads(), bytes, stream>>>(args);
  });
  check_launch("depthwise_nhwc_wgrad");
  reduce<T>(plan, lowered.wgrad, tensors, stream);
}

}  // namespace haloconv::depthwise
