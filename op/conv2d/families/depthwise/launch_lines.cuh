// Starts the depthwise kernels along lines; each file instances/lines_*.cu has those of one element
// type.
#pragma once

#include <stdexcept>

#include "conv2d/device/grid.h"
#include "conv2d/families/depthwise/launch.h"
#include "conv2d/families/depthwise/lines_kernel.cuh"
#include "conv2d/families/depthwise/lines_wgrad_kernel.cuh"
#include "conv2d/families/depthwise/reduce.cuh"
#include "cuda/check.h"

namespace haloconv::depthwise {

template <class T, int kTaps, bool kLoops>
void launch_lines_kernel(const LinesArguments<T>& args, cudaStream_t stream) {
  const auto kernel = args.fusion.is_none() ? depthwise_lines_kernel<T, kTaps, kLoops, false>
                                            : depthwise_lines_kernel<T, kTaps, kLoops, true>;
  kernel<<<grid_blocks(args.shape.blocks), args.shape.threads, 0, stream>>>(args);
  check_launch("depthwise_lines");
}

template <class T>
void launch_lines(const Conv2dProblem&, const Lowered& lowered, const GatherTensors<T>& tensors,
                  cudaStream_t stream) {
  const auto& shape = std::get<Lines>(lowered.shape);
  auto args = gather_arguments<LinesArguments<T>>(lowered, shape, tensors);
  args.filter_n = lowered.gather.filter.n;
  switch (args.shape.tap_block) {
    case 1:
      return launch_lines_kernel<T, 1, true>(args, stream);
    case 4:
      return launch_lines_kernel<T, 4, false>(args, stream);
    case kMostTapsAtOnce:
      return args.shape.taps <= kMostTapsAtOnce
                 ? launch_lines_kernel<T, kMostTapsAtOnce, false>(args, stream)
                 : launch_lines_kernel<T, kMostTapsAtOnce, true>(args, stream);
  }
  throw std::logic_error("haloconv: no depthwise kernel has this filter");
}

template <class T, int kTaps>
void launch_lines_wgrad_kernel(const LinesWgradArguments<T>& args, int64_t blocks,
                               cudaStream_t stream) {
  depthwise_lines_wgrad_kernel<T, kTaps>
      <<<grid_blocks(blocks), args.shape.threads, 0, stream>>>(args);
  check_launch("depthwise_lines_wgrad");
}

template <class T>
void launch_lines_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                        const WgradTensors<T>& tensors, cudaStream_t stream) {
  const auto& shape = std::get<LinesWgrad>(lowered.shape);
  const bool is_aligned = lines_are_aligned(problem.output, sizeof(T)) &&
                          reinterpret_cast<uintptr_t>(tensors.grad_output) % 16 == 0;
  auto args = wgrad_arguments<LinesWgradArguments<T>>(problem, plan, lowered, shape, tensors);
  args.vectors = FastDiv(vectors_of_line(shape.outputs, sizeof(T), is_aligned));
  const int64_t blocks = plan.splits * shape.channels.divisor * shape.tap_blocks.divisor;
  switch (shape.tap_block) {
    case 4:
      launch_lines_wgrad_kernel<T, 4>(args, blocks, stream);
      break;
    case 8:
      launch_lines_wgrad_kernel<T, 8>(args, blocks, stream);
      break;
    case kMostWgradTapsAtOnce:
      launch_lines_wgrad_kernel<T, kMostWgradTapsAtOnce>(args, blocks, stream);
      break;
    default:
      throw std::logic_error("haloconv: no depthwise kernel has this filter");
  }
  reduce<T>(plan, lowered.wgrad, tensors, stream);
}

}  // namespace haloconv::depthwise
