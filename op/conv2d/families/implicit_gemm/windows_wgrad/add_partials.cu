#include "conv2d/families/implicit_gemm/windows_wgrad/add_partials.h"

#include "conv2d/device/accumulator.cuh"
#include "conv2d/device/grid.h"
#include "conv2d/device/sum_by_lanes.cuh"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/partial.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::windows_wgrad {

namespace {

constexpr int kAddThreads = 256;

// Four sums of a tile that a thread has left side by side: of two rows, and two columns each.
class Quad {
 public:
  __device__ __forceinline__ Quad(const Arguments& args, const Tile& tile, int64_t number)
      : args_(args),
        at_(args, tile, static_cast<int32_t>(number / (tile.elements() / 4))),
        warp_(args, at_, tile, in_tile(tile, number) / (kRowBlocks * blocks_of_row(tile) * 32),
              in_tile(tile, number) % 32) {
    const int32_t block = in_tile(tile, number) / 32 % (kRowBlocks * blocks_of_row(tile));
    const int32_t column = block % blocks_of_row(tile) * 8 + warp_.lane % 4 * 2;
    row_ = at_.row + warp_.row + block / blocks_of_row(tile) * 16 + warp_.lane / 4;
    tap_ = warp_.tap_of(column);
    channel_ = warp_.first_channel + warp_.channel_of(column);
    is_bias_ = args.bias_is_product && at_.sums_bias(args) &&
               warp_.first_column + column == tile.columns - 8;
    is_filter_ = tap_ < args.geometry.taps.divisor;
  }

  __device__ __forceinline__ bool is_wanted() const {
    const Wgrad& g = args_.geometry;
    return row_ < g.rows && (is_bias_ || (is_filter_ && channel_ < g.channels));
  }

  template <class T>
  __device__ __forceinline__ void store_sums(const float4& sums, T* grad_filter,
                                             T* grad_bias) const {
    store_row(row_, sums.x, sums.y, grad_filter, grad_bias);
    store_row(row_ + 8, sums.z, sums.w, grad_filter, grad_bias);
  }

 private:
  static __device__ __forceinline__ int32_t blocks_of_row(const Tile& tile) {
    return tile.warp_columns() / 8;
  }
  static __device__ __forceinline__ int32_t in_tile(const Tile& tile, int64_t number) {
    return static_cast<int32_t>(number % (tile.elements() / 4));
  }

  template <class T>
  __device__ __forceinline__ void store_row(int32_t row, float one, float other, T* grad_filter,
                                            T* grad_bias) const {
    const Wgrad& g = args_.geometry;
    if (row >= g.rows) return;
    const int64_t k = int64_t{at_.group} * g.rows + row;
    if (is_bias_) store(grad_bias + k, one);
    if (!is_filter_) return;
    const int32_t r = g.taps_w_div.quotient(tap_), s = tap_ - r * g.taps_w;
    T* const to =
        grad_filter + (k * g.filter.n + channel_ * g.filter.c + r * g.filter.h + s * g.filter.w);
    if (channel_ < g.channels) store(to, one);
    if (channel_ + 1 < g.channels) store(to + g.filter.c, other);
  }

  const Arguments& args_;
  const BlockPosition at_;
  const WarpPosition warp_;
  int32_t row_, tap_, channel_;  // the first
  bool is_bias_, is_filter_;
};

// Some lanes of a warp add a quad. The first blocks have the filter's gradient; the others have the
// bias's that threads have summed.
template <class T>
__global__ void __launch_bounds__(kAddThreads)
    add_partials_kernel(const __grid_constant__ Arguments args, const Tile tile,
                        int64_t filter_blocks, int32_t lanes, T* __restrict__ grad_filter,
                        T* __restrict__ grad_bias) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp_sums = 32 / lanes;
  const int32_t in_block = thread / 32 * warp_sums + thread % warp_sums;
  const bool writes = thread % 32 < warp_sums;
  if (blockIdx.x >= filter_blocks) {
    const int64_t row = (blockIdx.x - filter_blocks) * (kAddThreads / lanes) + in_block;
    const bool exists = row < args.all_rows();
    const float sum = sum_by_lanes(args.partial + args.bias_at + row, args.all_rows(),
                                   exists ? args.splits : 0, lanes);
    if (exists && writes) store(grad_bias + row, sum);
    return;
  }
  const int64_t number = int64_t{blockIdx.x} * (kAddThreads / lanes) + in_block;
  const int64_t quads = args.tiles() * (tile.elements() / 4);
  const Quad quad(args, tile, min(number, quads - 1));
  const bool exists = number < quads && quad.is_wanted();
  const float4 sums = sum_by_lanes(reinterpret_cast<const float4*>(args.partial) + number, quads,
                                   exists ? args.splits : 0, lanes);
  if (exists && writes) quad.store_sums(sums, grad_filter, grad_bias);
}

}  // namespace

void launch_add_partials(DataType type, const Arguments& args, const Tile& tile, void* grad_filter,
                         void* grad_bias, cudaStream_t stream) {
  const int32_t lanes = lanes_of_sum(args.splits);
  const int64_t block_sums = kAddThreads / lanes;
  const bool has_bias = args.geometry.has_bias_column && !args.bias_is_product;
  const int64_t filter_blocks = ceil_div(args.tiles() * (tile.elements() / 4), block_sums);
  const int64_t bias_blocks = has_bias ? ceil_div(args.all_rows(), block_sums) : 0;
  with_element(type, [&]<class T>(T) {
    add_partials_kernel<T><<<grid_blocks(filter_blocks + bias_blocks), kAddThreads, 0, stream>>>(
        args, tile, filter_blocks, lanes, static_cast<T*>(grad_filter), static_cast<T*>(grad_bias));
  });
  check_launch("windows_wgrad add_partials");
}

}  // namespace haloconv::windows_wgrad
