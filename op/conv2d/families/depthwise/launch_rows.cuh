// Starts the depthwise kernels for rows innermost; each file instances/depthwise_*.cu has those of
// one element type.
#pragma once

#include "conv2d/families/depthwise/launch.h"
#include "conv2d/families/depthwise/reduce.cuh"
#include "conv2d/families/depthwise/rows_kernel.cuh"
#include "conv2d/families/depthwise/rows_wgrad_kernel.cuh"
#include "conv2d/families/depthwise/with_filter.cuh"
#include "conv2d/geometry/geometry.h"
#include "cuda/check.h"

namespace haloconv::depthwise {

// Outputs that may be written at once: all rows begin and end where so many do.
template <class T>
int32_t vector_of(const DepthwiseArguments<T>& args) {
  const Strides& at = args.destination_at;
  const auto fits = [&](int64_t n) {
    return at.h % n == 0 && at.c % n == 0 && at.n % n == 0 && args.shape.w.outputs % n == 0 &&
           reinterpret_cast<uintptr_t>(args.destination) % (n * sizeof(T)) == 0;
  };
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

// Whether a block's outputs lie in one piece of memory and fit where its windows and filters were.
// Not where threads write four at once anyway.
template <class T>
bool lie_in_one_piece(const DepthwiseArguments<T>& args) {
  const Depthwise& d = args.shape;
  const Strides& at = args.destination_at;
  const int64_t plane = int64_t{d.h.outputs} * d.w.outputs;
  const int64_t bytes = d.tile_planes * plane * static_cast<int64_t>(sizeof(T)) + 16;
  return args.vector < 4 && args.fusion.is_none() && d.h.tiles == 1 && d.w.tiles == 1 &&
         at.h == d.w.outputs && at.c == plane && at.n == plane * d.channels.divisor &&
         bytes <= d.shared_bytes;
}

template <class T>
void launch_rows(const Conv2dProblem&, const Lowered& lowered, const GatherTensors<T>& tensors,
                 cudaStream_t stream) {
  const auto& shape = std::get<Depthwise>(lowered.shape);
  auto args = gather_arguments<DepthwiseArguments<T>>(lowered, shape, tensors);
  args.filter_n = lowered.gather.filter.n;
  args.vector = vector_of(args);
  args.in_one_piece = lie_in_one_piece(args);
  const auto launch = [&](auto kernel) {
    kernel<<<grid_blocks(shape.blocks), shape.threads, shape.shared_bytes, stream>>>(args);
  };
  const auto launch_row = [&]<class Row>() {
    args.fusion.is_none() ? launch(depthwise_kernel<T, Row, false>)
                          : launch(depthwise_kernel<T, Row, true>);
  };
  with_depthwise_filter(shape, [&]<int kTaps, int kStep>() {
    if constexpr (kStep == 1) {
      if (shape.w.upsampling == 2) {
        return shape.w.tap_phase == 0
                   ? launch_row.template operator()<DepthwiseRow<kTaps, 1, 2, 0>>()
                   : launch_row.template operator()<DepthwiseRow<kTaps, 1, 2, 1>>();
      }
    }
    launch_row.template operator()<DepthwiseRow<kTaps, kStep, 1, 0>>();
  });
  check_launch("depthwise");
}

template <class T>
void launch_rows_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                       const WgradTensors<T>& tensors, cudaStream_t stream) {
  const auto& shape = std::get<DepthwiseWgrad>(lowered.shape);
  const auto args =
      wgrad_arguments<DepthwiseWgradArguments<T>>(problem, plan, lowered, shape, tensors);
  const Depthwise& d = shape.d;
  with_depthwise_filter(d, [&]<int kTaps, int kStep>() {
    depthwise_wgrad_kernel<T, kTaps, kStep>
        <<<grid_blocks(plan.splits * d.channels.divisor), d.threads, d.shared_bytes, stream>>>(
            args);
  });
  check_launch("depthwise_wgrad");
  reduce<T>(plan, lowered.wgrad, tensors, stream);
}

}  // namespace haloconv::depthwise
