// Starts the depthwise kernels of weight gradients by eights of images; each file
// instances/images_*.cu has those of one element type.
#pragma once

#include "conv2d/device/grid.h"
#include "conv2d/families/depthwise/images_wgrad_kernel.cuh"
#include "conv2d/families/depthwise/launch.h"
#include "conv2d/families/depthwise/reduce.cuh"
#include "conv2d/families/depthwise/with_filter.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::depthwise {

template <class T>
void launch_images_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                         const WgradTensors<T>& tensors, cudaStream_t stream) {
  const auto& shape = std::get<Images>(lowered.shape);
  auto args = wgrad_arguments<ImagesArguments<T>>(problem, plan, lowered, shape, tensors);
  args.images = problem.n;
  const unsigned grid = grid_blocks(plan.splits * shape.channel_tiles.divisor);
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    const auto kernel = depthwise_images_wgrad_kernel<T, kTaps, kStep>;
    constexpr int kBytes = images_shared_bytes(kStep);
    allow_shared_bytes(kernel, kBytes);
    kernel<<<grid, kImageThreads, kBytes, stream>>>(args);
  });
  check_launch("depthwise_images_wgrad");
  reduce<T>(plan, lowered.wgrad, tensors, stream);
}

}  // namespace haloconv::depthwise
