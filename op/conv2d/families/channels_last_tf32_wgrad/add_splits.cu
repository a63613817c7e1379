// The splits' sums, added in their order, become the filter's gradient and the bias's.
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/device/sum_together.cuh"
#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

// Of a multiprocessor at least, so that a block has room beside one of the kernel before.
constexpr int kReduceBlocks = 4;

// A lane adds a math thread's four sums. The first blocks have the filter's gradient, the others
// the bias's.
template <int kSlices>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_splits_kernel(const __grid_constant__ Arguments args, const __grid_constant__ Tile tile,
                      int32_t filter_blocks) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  allow_dependents();
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const int32_t k = (static_cast<int32_t>(blockIdx.x) - filter_blocks) * kLanes + lane;
    const bool exists = k < args.k;
    wait_for_kernel_before();
    const float sum =
        sum_together<kSlices>(args.bias_partial + k, args.k, exists ? args.splits : 0);
    if (exists && writes) static_cast<float*>(args.grad_bias)[k] = sum;
    return;
  }
  const int64_t tile_quads = tile.values() / 4;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;  // (tile, quad, math thread)
  const bool is_in_tiles = at < args.tiles * tile_quads;
  // What is worked out before the wait is there when the partial sums are.
  const auto index = static_cast<int32_t>(is_in_tiles ? at / tile_quads : 0);
  const auto in_tile = static_cast<int32_t>(at % tile_quads);
  const QuadPlace first(args, tile, TilePosition(args, tile, index), in_tile % tile.math_threads(),
                        in_tile / tile.math_threads());
  wait_for_kernel_before();
  const float4 sum = sum_together<kSlices>(reinterpret_cast<const float4*>(args.partial) + at,
                                           args.tiles * tile_quads, is_in_tiles ? args.splits : 0);
  if (!writes || !is_in_tiles || !first.exists) return;
  const float values[] = {sum.x, sum.y, sum.z, sum.w};
  auto* const filter = static_cast<float*>(args.grad_filter);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    QuadPlace element = first;
    element.k += i % 2, element.c += i / 2;
    if (element.k < args.k && element.c < args.c) filter[args.filter_offset(element)] = values[i];
  }
}

}  // namespace

void launch_add_splits(const Tile& tile, const Arguments& args, cudaStream_t stream) {
  const int64_t bias_floats = args.with_bias ? args.k : 0;
  const auto launch = [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(args.tiles * tile.values(), bias_floats);
    launch_dependent(add_splits_kernel<kSlices>, grid.blocks, kReduceThreads, 0, stream,
                     "sm90 channels_last_tf32_wgrad sums", args, tile, grid.filter_blocks);
  };
  // So that threads have about eight sums each, which are on their way together.
  if (args.splits < 16) return launch.template operator()<1>();
  if (args.splits < 32) return launch.template operator()<2>();
  launch.template operator()<8>();
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
