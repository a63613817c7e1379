#include "conv2d/families/channels_last_wgrad/add_partials.h"

#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/channels_last_wgrad/filter_elements.cuh"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

constexpr int kReduceBlocks = 5;  // of a multiprocessor at least: repairs shall not cost any

// A lane adds a math thread's four sums. The first blocks have the filter's gradient, the others
// the bias's.
template <class T, int kSlices, class Args>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_partials_kernel(const __grid_constant__ Args args, const __grid_constant__ Tile tile,
                        int32_t filter_blocks) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  allow_dependents();
  wait_for_kernel_before();
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const int32_t k = (static_cast<int32_t>(blockIdx.x) - filter_blocks) * kLanes + lane;
    const bool exists = k < args.k;
    const float sum =
        sum_partials<kSlices>(args.bias_partial + k, args.k, exists ? args.outer_splits : 0);
    if (exists && writes) static_cast<T*>(args.grad_bias)[k] = T(sum);
    return;
  }
  const int64_t tile_quads = tile.values() / 4;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;  // (tile, quad, math thread)
  const bool exists = at < args.tiles * tile_quads;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(args.partial) + at,
                                           args.tiles * tile_quads, exists ? args.outer_splits : 0);
  if (!writes) return;
  const auto index = static_cast<int32_t>(at / tile_quads);
  const auto in_tile = static_cast<int32_t>(at % tile_quads);
  const FilterElement first =
      first_of_quad(args, tile, TilePosition(args, tile, index), in_tile % tile.math_threads(),
                    in_tile / tile.math_threads());
  NonfiniteWatch watch;
  if (exists) {
    store_quad<T>(args, first, sum);
    watch.see(sum);
  }
  if (args.reaches_beyond && watch.any()) {
    repair_quad<T>(args, first, exists, {args.partial + 4 * at, args.tiles * tile.values()});
  }
}

}  // namespace

template <class T, class Args>
void launch_add_partials(const Args& args, const Tile& tile, cudaStream_t stream) {
  const int64_t bias_floats = args.grad_bias == nullptr ? 0 : args.k;
  with_slices(args.outer_splits, [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(args.tiles * tile.values(), bias_floats);
    launch_dependent(add_partials_kernel<T, kSlices, Args>, grid.blocks, kReduceThreads, 0, stream,
                     "sm90 channels_last_wgrad sums", args, tile, grid.filter_blocks);
  });
}

template void launch_add_partials<__half>(const Arguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__half>(const RowsArguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__nv_bfloat16>(const Arguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__nv_bfloat16>(const RowsArguments&, const Tile&, cudaStream_t);

}  // namespace haloconv::sm90::channels_last_wgrad
