// Rows innermost. A lane has two pixels of a row of the source, those of its column of results; the
// pixels before and behind come from its neighbours, or from memory where a warp ends.
#include "conv2d/device/grid.h"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise_direct/results.cuh"
#include "cuda/check.h"

namespace haloconv::depthwise_direct {

namespace {

constexpr int kRowThreads = kBlockThreads / 2;

template <int kSide, bool kFused>
__global__ void __launch_bounds__(kRowThreads)
    depthwise_rows(const __grid_constant__ KernelArguments<float> args) {
  constexpr int kSourceRows = (kWarpRows - 1) * kRowStride + kSide;
  constexpr bool kHasBehind = kSide > kRowStride + 1;
  const Arguments& d = args.shape;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t tile = static_cast<int32_t>(blockIdx.x) * (kRowThreads / 32) +
                       static_cast<int32_t>(threadIdx.x) / 32;
  if (tile >= d.tiles) return;
  const int32_t all_rows = d.column_tiles.quotient(tile);
  const int32_t plane = d.row_tiles.quotient(all_rows);
  const int32_t image = d.image_channels.quotient(plane), channel = plane - image * d.channels;
  const int32_t p = (all_rows - plane * d.row_tiles.divisor) * kWarpRows;
  const int32_t q = (tile - all_rows * d.column_tiles.divisor) * kWarpColumns + lane;
  const int32_t h = p * kRowStride - d.pad_top, w = q * kRowStride;
  const float* const source =
      args.source + image * d.source.n + channel * d.source.c + h * d.source.h + w;
  // The first lane reads the pixel before its own, and the last one the pixel behind.
  const bool is_first = lane == 0;
  const int32_t beside = is_first ? -1 : kRowStride;
  const bool reads_beside = (is_first || (kHasBehind && lane == 31)) &&
                            static_cast<uint32_t>(w + beside) < static_cast<uint32_t>(d.w);
  float pixels[kSourceRows][kRowStride], others[kSourceRows];
#pragma unroll
  for (int i = 0; i < kSourceRows; ++i) {
    const bool has_row = static_cast<uint32_t>(h + i) < static_cast<uint32_t>(d.h);
    const float* const row = source + i * d.source.h;
    load_global(row, pixels[i], has_row && w < d.w);
    others[i] = load_global(row + beside, has_row && reads_beside);
  }
  float weights[kSide][kSide];
  const float* const filter = args.filter + d.filter_first + channel * d.filter_channel;
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int s = 0; s < kSide; ++s) {
      weights[r][s] = __ldg(filter + r * d.filter_row + s * d.filter_column);
    }
  }
  float sums[kWarpRows] = {};
#pragma unroll
  for (int i = 0; i < kSourceRows; ++i) {
    float window[kSide];
    const float before = __shfl_up_sync(~0u, pixels[i][kRowStride - 1], 1);
    window[0] = is_first ? others[i] : before;
#pragma unroll
    for (int j = 0; j < kRowStride; ++j) window[1 + j] = pixels[i][j];
    if constexpr (kHasBehind) {
      const float behind = __shfl_down_sync(~0u, pixels[i][0], 1);
      window[kRowStride + 1] = lane == 31 ? others[i] : behind;
    }
#pragma unroll
    for (int row = 0; row < kWarpRows; ++row) {
      const int r = i - row * kRowStride;
      if (r < 0 || r >= kSide) continue;
#pragma unroll
      for (int s = 0; s < kSide; ++s) sums[row] = fmaf(window[s], weights[r][s], sums[row]);
    }
  }
  const int64_t offset = image * d.result.n + channel * d.result.c + p * d.result.h + q;
  OutputElement elements[kWarpRows];
#pragma unroll
  for (int row = 0; row < kWarpRows; ++row) {
    elements[row] = {p + row < d.p && q < d.q, channel, offset + row * d.result.h};
  }
  write_sums<kFused>(args, channel, sums, elements);
}

}  // namespace

void launch_rows(const Plan& plan, const KernelArguments<float>& args, cudaStream_t stream) {
  const auto start = [&]<int kSide>() {
    const auto kernel =
        args.fusion.is_none() ? depthwise_rows<kSide, false> : depthwise_rows<kSide, true>;
    kernel<<<grid_blocks(plan.blocks), plan.threads, 0, stream>>>(args);
    check_launch("depthwise_direct rows");
  };
  if (plan.side == 4) return start.template operator()<4>();
  start.template operator()<3>();
}

}  // namespace haloconv::depthwise_direct
