// The sums of wgrad's runs, added in their order, become the filter's gradient and the bias's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/first_layers/plain_rows_instances.h"
#include "conv2d/families/first_layers/sum_place.h"
#include "conv2d/families/first_layers/warp_products_instances.h"
#include "conv2d/families/first_layers/wgrad_nonfinite.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::first_layers {

namespace {

constexpr int kMathThreads = kMathGroups * 128;

constexpr int kReduceBlocks = 8;  // of a multiprocessor at least: repairs must not make them fewer

// The sums of a channel tile, of each math thread.
struct UnitSums {
  int32_t columns, rows;

  HALOCONV_HOST_DEVICE int32_t threads() const { return kMathThreads; }
  HALOCONV_HOST_DEVICE int32_t of_thread() const { return rows * columns / 2; }
  HALOCONV_HOST_DEVICE SumPlace place(const WgradArguments& args, int32_t tile, int32_t sum,
                                      int32_t thread) const {
    return {args, columns, tile, sum, thread};
  }
};

struct PlainSums {
  PlainWgradArguments args;

  HALOCONV_HOST_DEVICE int32_t threads() const { return args.math_threads(); }
  HALOCONV_HOST_DEVICE int32_t of_thread() const { return args.chunks * kChunkSums; }
  HALOCONV_HOST_DEVICE PlainSumPlace place(const WgradArguments&, int32_t tile, int32_t sum,
                                           int32_t thread) const {
    return {args, tile, sum, thread};
  }
};

struct WarpProductSums {
  WarpProductsArguments args;

  HALOCONV_HOST_DEVICE int32_t threads() const { return args.sum_threads(); }
  HALOCONV_HOST_DEVICE int32_t of_thread() const { return args.sums_of_thread(); }
  HALOCONV_HOST_DEVICE WarpSumPlace place(const WgradArguments&, int32_t tile, int32_t sum,
                                          int32_t thread) const {
    return {args, tile, sum, thread};
  }
};

// A lane adds one sum of a math thread.
template <class T, class Sums>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_runs_kernel(const __grid_constant__ WgradArguments args,
                    const __grid_constant__ Sums sums) {
  constexpr int kLanes = kReduceThreads / kManySlices;
  allow_dependents();
  wait_for_kernel_before();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int32_t of_tile = sums.of_thread() * sums.threads();
  const int32_t all = args.channel_tiles * of_tile;
  const int32_t at = static_cast<int32_t>(blockIdx.x) * kLanes + lane;  // (tile, sum, thread)
  const int32_t in_tile = at % of_tile;
  const auto place =
      sums.place(args, at / of_tile, in_tile / sums.threads(), in_tile % sums.threads());
  const bool stores = at < all && place.is_filter, stores_bias = at < all && place.is_bias;
  const float sum = sum_partials<kManySlices>(args.partial + at, all,
                                              stores || stores_bias ? args.sweep.runs : 0);
  if (threadIdx.x >= kLanes) return;
  const FilterElement element = {place.k, place.c, place.r, place.s};
  if (stores) static_cast<T*>(args.grad_filter)[args.filter_offset(element)] = T(sum);
  if (stores_bias) static_cast<T*>(args.grad_bias)[place.k] = T(sum);
  // In float32 nothing that counts reaches beyond grad_output.
  if constexpr (sizeof(T) == 2) {
    if (args.reaches_beyond && __any_sync(~0u, stores && isnan(sum))) {
      repair_element<T>(args, element, stores, {args.partial + at, all});
    }
  }
}

template <class T, class Sums>
void launch(const WgradArguments& args, const Sums& sums, cudaStream_t stream) {
  constexpr int64_t kLanes = kReduceThreads / kManySlices;
  static_assert(kLanes == 32, "a whole warp stores, and repairs");
  const int64_t all = int64_t{args.channel_tiles} * sums.of_thread() * sums.threads();
  const auto blocks = static_cast<unsigned>(ceil_div(all, kLanes));
  launch_dependent(add_runs_kernel<T, Sums>, blocks, kReduceThreads, 0, stream,
                   "sm90 first_layers sums", args, sums);
}

template <class Sums>
void launch_of_16_bits(DataType type, const WgradArguments& args, const Sums& sums,
                       cudaStream_t stream) {
  const auto run = type == DataType::kFloat16 ? launch<__half, Sums> : launch<__nv_bfloat16, Sums>;
  run(args, sums, stream);
}

}  // namespace

void launch_add_runs(DataType type, const WgradArguments& args, int32_t columns, int32_t rows,
                     cudaStream_t stream) {
  launch_of_16_bits(type, args, UnitSums{columns, rows}, stream);
}

void launch_add_plain_runs(DataType type, const PlainWgradArguments& args, cudaStream_t stream) {
  launch_of_16_bits(type, args.wgrad, PlainSums{args}, stream);
}

void launch_add_warp_runs(const WarpProductsArguments& args, cudaStream_t stream) {
  launch<float>(args.wgrad, WarpProductSums{args}, stream);
}

}  // namespace haloconv::sm90::first_layers
