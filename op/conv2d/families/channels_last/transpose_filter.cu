#include "conv2d/device/round.cuh"
#include "conv2d/families/channels_last/instances.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last {

namespace {

// A block transposes a tile of one tap, kSide output channels by kSide input channels. Lanes read
// neighbouring input channels and write neighbouring output channels.
constexpr int kSide = 32;
constexpr int kTransposeThreads = 256;
constexpr int kLines = kTransposeThreads / kSide;  // read or written at once

struct FilterArguments {
  const float* filter;
  float* transposed;
  Strides strides;  // of the filter
  int32_t k, c;
  FastDiv tap_columns, tap_rows, tiles_of_k;
};

__global__ void __launch_bounds__(kTransposeThreads)
    transpose_filter(__grid_constant__ const FilterArguments args) {
  __shared__ float tile[kSide][kSide + 1];  // lines of one column are in different banks
  allow_dependents();
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t above_s = args.tap_columns.quotient(block);
  const int32_t s = block - above_s * args.tap_columns.divisor;
  const int32_t above_r = args.tap_rows.quotient(above_s);
  const int32_t r = above_s - above_r * args.tap_rows.divisor;
  const int32_t tile_c = args.tiles_of_k.quotient(above_r);
  const int32_t first_k = (above_r - tile_c * args.tiles_of_k.divisor) * kSide;
  const int32_t first_c = tile_c * kSide;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kSide;
  const int32_t line = static_cast<int32_t>(threadIdx.x) / kSide;

  wait_for_kernel_before();
  const float* from = args.filter + r * args.strides.h + s * args.strides.w;
#pragma unroll
  for (int32_t i = line; i < kSide; i += kLines) {
    const int32_t k = first_k + i, c = first_c + lane;
    if (k < args.k && c < args.c) tile[i][lane] = from[k * args.strides.n + c * args.strides.c];
  }
  __syncthreads();
  const int64_t taps = int64_t{args.tap_rows.divisor} * args.tap_columns.divisor;
  const int64_t tap = int64_t{r} * args.tap_columns.divisor + s;
#pragma unroll
  for (int32_t i = line; i < kSide; i += kLines) {
    const int32_t k = first_k + lane, c = first_c + i;
    if (k < args.k && c < args.c) {
      args.transposed[(c * taps + tap) * args.k + k] =
          __uint_as_float(round_to_tf32(tile[lane][i]));
    }
  }
}

}  // namespace

void launch_transpose_filter(const Conv2dProblem& problem, const float* filter, float* transposed,
                             cudaStream_t stream) {
  const int64_t tiles_of_k = ceil_div(problem.k, int64_t{kSide});
  const int64_t blocks =
      ceil_div(problem.group_c(), int64_t{kSide}) * tiles_of_k * problem.r * problem.s;
  const FilterArguments args{.filter = filter,
                             .transposed = transposed,
                             .strides = problem.filter,
                             .k = narrow(problem.k),
                             .c = narrow(problem.group_c()),
                             .tap_columns = FastDiv(problem.s),
                             .tap_rows = FastDiv(problem.r),
                             .tiles_of_k = FastDiv(tiles_of_k)};
  launch_dependent(transpose_filter, static_cast<unsigned>(narrow(blocks)), kTransposeThreads, 0,
                   stream, "sm90 channels_last filter", args);
}

}  // namespace haloconv::sm90::channels_last
