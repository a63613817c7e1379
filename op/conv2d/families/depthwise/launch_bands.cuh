// Starts the depthwise kernels by band matrices; each file instances/bands_*.cu has those of one
// element type.
#pragma once

#include <stdexcept>

#include "conv2d/device/grid.h"
#include "conv2d/families/depthwise/bands_kernel.cuh"
#include "conv2d/families/depthwise/launch.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::depthwise {

template <class T, int kTaps>
void launch_bands_kernel(const BandsArguments<T>& args, cudaStream_t stream) {
  const bool fused = !args.fusion.is_none();
  const auto kernel =
      fused ? depthwise_bands_kernel<T, kTaps, true> : depthwise_bands_kernel<T, kTaps, false>;
  allow_shared_bytes(kernel, args.shape.most_shared_bytes);
  kernel<<<grid_blocks(args.shape.blocks()), kBandThreads, args.shape.shared_bytes(fused),
           stream>>>(args);
  check_launch("depthwise_bands");
}

template <class T>
void launch_bands(const Conv2dProblem&, const Lowered& lowered, const GatherTensors<T>& tensors,
                  cudaStream_t stream) {
  const auto& shape = std::get<Bands>(lowered.shape);
  auto args = gather_arguments<BandsArguments<T>>(lowered, shape, tensors);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  args.source_row_bytes = args.source_at.h * kBytes;
  args.source_pixel_bytes = args.source_at.w * kBytes;
  args.destination_row_bytes = args.destination_at.h * kBytes;
  args.destination_pixel_bytes = args.destination_at.w * kBytes;
  args.half_row_bytes = shape.pairs * 16;
  args.row_bytes = shape.pairs * 32;
  switch (shape.h.taps) {
    case 3:
      return launch_bands_kernel<T, 3>(args, stream);
    case 5:
      return launch_bands_kernel<T, 5>(args, stream);
    case 7:
      return launch_bands_kernel<T, 7>(args, stream);
  }
  throw std::logic_error("haloconv: no depthwise kernel has this filter");
}

}  // namespace haloconv::depthwise
