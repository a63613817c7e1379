// Launches the family's kernels, for each element type but float64.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/lowered.h"
#include "conv2d/families/depthwise/plan.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

// The tensors of fprop (source = input, destination = output) or dgrad (output gradient, input
// gradient). `bias` may be null.
template <class T>
struct GatherTensors {
  const T *source, *filter, *bias;
  T* destination;
  Fusion fusion;
};

// By windows of planes, with rows innermost; along lines; with channels innermost by patches or
// down rows; by band matrices, of 16-bit types.
template <class T>
void launch_rows(const Conv2dProblem& problem, const Lowered& lowered,
                 const GatherTensors<T>& tensors, cudaStream_t stream);
template <class T>
void launch_lines(const Conv2dProblem& problem, const Lowered& lowered,
                  const GatherTensors<T>& tensors, cudaStream_t stream);
template <class T>
void launch_channels(const Conv2dProblem& problem, const Lowered& lowered,
                     const GatherTensors<T>& tensors, cudaStream_t stream);
template <class T>
void launch_bands(const Conv2dProblem& problem, const Lowered& lowered,
                  const GatherTensors<T>& tensors, cudaStream_t stream);

// The tensors of wgrad. `grad_bias` is written where the plan has it.
template <class T>
struct WgradTensors {
  const T *grad_output, *input;
  T *grad_filter, *grad_bias;
  void* workspace;
};

// Partial sums and their sum.
template <class T>
void launch_rows_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                       const WgradTensors<T>& tensors, cudaStream_t stream);
template <class T>
void launch_lines_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                        const WgradTensors<T>& tensors, cudaStream_t stream);
template <class T>
void launch_channels_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                           const WgradTensors<T>& tensors, cudaStream_t stream);
template <class T>  // of 16-bit types
void launch_images_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                         const WgradTensors<T>& tensors, cudaStream_t stream);

// A kernel's arguments with the fields that those of all kernels have.
template <class Arguments, class Shape, class T>
Arguments gather_arguments(const Lowered& lowered, const Shape& shape,
                           const GatherTensors<T>& tensors) {
  Arguments args{};
  args.source = tensors.source;
  args.filter = tensors.filter;
  args.bias = tensors.bias;
  args.destination = tensors.destination;
  args.shape = shape;
  args.source_at = lowered.gather.source;
  args.destination_at = lowered.gather.destination;
  args.filter_group = lowered.gather.filter_group;
  args.fusion = tensors.fusion;
  return args;
}
template <class Arguments, class Shape, class T>
Arguments wgrad_arguments(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                          const Shape& shape, const WgradTensors<T>& tensors) {
  Arguments args{};
  args.input = tensors.input;
  args.grad_output = tensors.grad_output;
  args.partial = static_cast<float*>(tensors.workspace);
  args.shape = shape;
  args.input_at = problem.input;
  args.output_at = problem.output;
  args.columns = lowered.wgrad.columns;
  args.split_tiles = static_cast<int32_t>(ceil_div(shape.tiles, plan.splits));
  return args;
}

}  // namespace haloconv::depthwise
