#include "conv2d/families/channels_last_wgrad/add_partials.h"

#include "conv2d/device/sum_together.cuh"
#include "conv2d/families/channels_last_wgrad/filter_elements.cuh"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

constexpr int kReduceBlocks = 4;  // of a multiprocessor at least: repairs shall not cost any

// What the places of partial sums are divided by: quads of a tile, and its math threads.
struct QuadDivisors {
  FastDiv tile_quads, math_threads;
};

// A lane adds a math thread's four sums. The first blocks have the filter's gradient, the others
// the bias's.
template <class T, int kSlices, class Args>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_partials_kernel(const __grid_constant__ Args args, const __grid_constant__ Tile tile,
                        const __grid_constant__ QuadDivisors divisors, int32_t filter_blocks) {
  constexpr int32_t kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  allow_dependents();
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const int32_t k = (static_cast<int32_t>(blockIdx.x) - filter_blocks) * kLanes + lane;
    const bool exists = k < args.k;
    wait_for_kernel_before();
    const float sum =
        sum_together<kSlices>(args.bias_partial + k, args.k, exists ? args.outer_splits : 0);
    if (exists && writes) static_cast<T*>(args.grad_bias)[k] = T(sum);
    return;
  }
  const int32_t tile_quads = divisors.tile_quads.divisor;
  const int32_t at = static_cast<int32_t>(blockIdx.x) * kLanes + lane;  // (tile, quad, thread)
  const int32_t quads = args.tiles * tile_quads;
  const bool exists = at < quads;
  // What is worked out before the wait is there when the partial sums are.
  const int32_t index = divisors.tile_quads.quotient(at);
  const int32_t in_tile = at - index * tile_quads;
  const int32_t quad = divisors.math_threads.quotient(in_tile);
  const FilterElement first = first_of_quad(args, tile, TilePosition(args, tile, index),
                                            in_tile - quad * divisors.math_threads.divisor, quad);
  wait_for_kernel_before();
  const float4 sum = sum_together<kSlices>(reinterpret_cast<const float4*>(args.partial) + at,
                                           quads, exists ? args.outer_splits : 0);
  if (!writes) return;
  NonfiniteWatch watch;
  if (exists) {
    store_quad<T>(args, first, sum);
    watch.see(sum);
  }
  if (args.reaches_beyond && watch.any()) {
    repair_quad<T>(args, first, exists,
                   {args.partial + int64_t{4} * at, args.tiles * tile.values()});
  }
}

}  // namespace

template <class T, class Args>
void launch_add_partials(const Args& args, const Tile& tile, cudaStream_t stream) {
  const int64_t bias_floats = args.grad_bias == nullptr ? 0 : args.k;
  with_slices(args.outer_splits, [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(args.tiles * tile.values(), bias_floats);
    const QuadDivisors divisors = {FastDiv(tile.values() / 4), FastDiv(tile.math_threads())};
    launch_dependent(add_partials_kernel<T, kSlices, Args>, grid.blocks, kReduceThreads, 0, stream,
                     "sm90 channels_last_wgrad sums", args, tile, divisors, grid.filter_blocks);
  });
}

template void launch_add_partials<__half>(const Arguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__half>(const RowsArguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__nv_bfloat16>(const Arguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__nv_bfloat16>(const RowsArguments&, const Tile&, cudaStream_t);

}  // namespace haloconv::sm90::channels_last_wgrad
