// The splits' sums, added in their order, become the filter's gradient and the bias's.
#include "conv2d/device/nonfinite_repair.cuh"
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "cuda/check.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

constexpr int kReduceBlocks = 6;  // of a multiprocessor at least: repairs shall not cost any

// A lane adds a math thread's four sums. The first blocks have the filter's gradient, the others
// the bias's.
template <int kSlices>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_splits_kernel(const __grid_constant__ Arguments args, const __grid_constant__ Tile tile,
                      int32_t filter_blocks) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const int32_t k = (static_cast<int32_t>(blockIdx.x) - filter_blocks) * kLanes + lane;
    const bool exists = k < args.k;
    const float sum =
        sum_partials<kSlices>(args.bias_partial + k, args.k, exists ? args.splits : 0);
    if (exists && writes) static_cast<float*>(args.grad_bias)[k] = sum;
    return;
  }
  const int64_t tile_quads = tile.values() / 4;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;  // (tile, quad, math thread)
  const bool is_in_tiles = at < args.tiles * tile_quads;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(args.partial) + at,
                                           args.tiles * tile_quads, is_in_tiles ? args.splits : 0);
  if (!writes) return;
  const auto index = static_cast<int32_t>(is_in_tiles ? at / tile_quads : 0);
  const auto in_tile = static_cast<int32_t>(at % tile_quads);
  const QuadPlace first(args, tile, TilePosition(args, tile, index), in_tile % tile.math_threads(),
                        in_tile / tile.math_threads());
  const float values[] = {sum.x, sum.y, sum.z, sum.w};
  auto* const filter = static_cast<float*>(args.grad_filter);
  bool has_nan = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const FilterElement element = {first.k + i % 2, first.c + i / 2, first.r, first.s};
    if (!is_in_tiles || !first.exists || element.k >= args.k || element.c >= args.c) continue;
    filter[args.filter_offset(element)] = values[i];
    has_nan = has_nan || isnan(values[i]);
  }
  if (!args.reaches_beyond || !__any_sync(~0u, has_nan)) return;
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    repair_element<float>(args, {first.k + i % 2, first.c + i / 2, first.r, first.s},
                          is_in_tiles && first.exists,
                          {args.partial + 4 * at + i, args.tiles * tile.values()});
  }
}

}  // namespace

void launch_add_splits(const Tile& tile, const Arguments& args, cudaStream_t stream) {
  const int64_t bias_floats = args.with_bias ? args.k : 0;
  with_slices(args.splits, [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(args.tiles * tile.values(), bias_floats);
    add_splits_kernel<kSlices>
        <<<grid.blocks, kReduceThreads, 0, stream>>>(args, tile, grid.filter_blocks);
  });
  check_launch("sm90 channels_last_tf32_wgrad sums");
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
