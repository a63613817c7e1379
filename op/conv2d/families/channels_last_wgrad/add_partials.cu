#include "conv2d/families/channels_last_wgrad/add_partials.h"

#include "conv2d/device/sum_by_lanes.cuh"
#include "conv2d/families/channels_last_wgrad/filter_elements.cuh"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

// Of a multiprocessor at least, so that a block has room beside one of the kernel before.
constexpr int kReduceBlocks = 4;

// What the places of partial sums are divided by: quads of a tile, and its math threads.
struct QuadDivisors {
  FastDiv tile_quads, math_threads;
};

// Some lanes of a warp add a math thread's four sums. The first blocks have the filter's gradient,
// the others the bias's.
template <class T, class Args>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_partials_kernel(const __grid_constant__ Args args, const __grid_constant__ Tile tile,
                        const __grid_constant__ QuadDivisors divisors, int32_t filter_blocks,
                        int32_t lanes) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp_sums = 32 / lanes;
  const int32_t in_block = thread / 32 * warp_sums + thread % warp_sums;
  const bool writes = thread % 32 < warp_sums;
  const auto block = static_cast<int32_t>(blockIdx.x);
  allow_dependents();
  if (block >= filter_blocks) {
    const int32_t k = (block - filter_blocks) * (kReduceThreads / lanes) + in_block;
    const bool exists = k < args.k;
    wait_for_kernel_before();
    const float sum =
        sum_by_lanes(args.bias_partial + k, args.k, exists ? args.outer_splits : 0, lanes);
    if (exists && writes) static_cast<T*>(args.grad_bias)[k] = T(sum);
    return;
  }
  const int32_t tile_quads = divisors.tile_quads.divisor;
  const int32_t at = block * (kReduceThreads / lanes) + in_block;  // (tile, quad, thread)
  const int32_t quads = args.tiles * tile_quads;
  const bool exists = at < quads;
  // What is worked out before the wait is there when the partial sums are.
  const int32_t index = divisors.tile_quads.quotient(at);
  const int32_t in_tile = at - index * tile_quads;
  const int32_t quad = divisors.math_threads.quotient(in_tile);
  const FilterElement first = first_of_quad(args, tile, TilePosition(args, tile, index),
                                            in_tile - quad * divisors.math_threads.divisor, quad);
  wait_for_kernel_before();
  const float4 sum = sum_by_lanes(reinterpret_cast<const float4*>(args.partial) + at, quads,
                                  exists ? args.outer_splits : 0, lanes);
  if (exists && writes) store_quad<T>(args, first, sum);
}

}  // namespace

template <class T, class Args>
void launch_add_partials(const Args& args, const Tile& tile, cudaStream_t stream) {
  const int32_t lanes = lanes_of_sum(args.outer_splits);
  const int64_t block_sums = kReduceThreads / lanes;
  const int64_t filter_blocks = ceil_div(args.tiles * tile.values() / 4, block_sums);
  const int64_t bias_blocks = args.grad_bias == nullptr ? 0 : ceil_div(args.k, block_sums);
  const QuadDivisors divisors = {FastDiv(tile.values() / 4), FastDiv(tile.math_threads())};
  launch_dependent(add_partials_kernel<T, Args>, grid_blocks(filter_blocks + bias_blocks),
                   kReduceThreads, 0, stream, "sm90 channels_last_wgrad sums", args, tile, divisors,
                   static_cast<int32_t>(filter_blocks), lanes);
}

template void launch_add_partials<__half>(const Arguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__half>(const RowsArguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__nv_bfloat16>(const Arguments&, const Tile&, cudaStream_t);
template void launch_add_partials<__nv_bfloat16>(const RowsArguments&, const Tile&, cudaStream_t);

}  // namespace haloconv::sm90::channels_last_wgrad
