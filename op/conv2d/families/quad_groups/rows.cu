// Rows innermost. A lane has kStride pixels of a row of the source at a time, those of its column
// of results; the pixels before and behind come from its neighbours. A warp's filter, of a source
// channel all taps and four result channels, is in registers while all rows are multiplied by it.
#include "conv2d/device/grid.h"
#include "conv2d/families/quad_groups/filter.cuh"
#include "cuda/check.h"

namespace haloconv::quad_groups {

namespace {

// So many neighbouring pixels, zeros unless they are inside.
template <class T, int kCount>
__device__ __forceinline__ void load_pixels(const T* at, bool inside, float (&pixels)[kCount]) {
  if constexpr (sizeof(T) == 4) {
    load_global(at, pixels, inside);
  } else if constexpr (kCount == 2) {
    const uint32_t word = inside ? *reinterpret_cast<const uint32_t*>(at) : 0;
    pixels[0] = Element<T>::value(word, 0);
    pixels[1] = Element<T>::value(word, 1);
  } else {
    pixels[0] = inside ? Element<T>::to_float(*at) : 0.0f;
  }
}

// What a lane's column of results meets in a row, of which it has kStride pixels itself.
template <int kSide, int kStride>
__device__ __forceinline__ void window_of(const float (&own)[kStride], float (&window)[kSide]) {
  window[0] = __shfl_up_sync(~0u, own[kStride - 1], 1);
#pragma unroll
  for (int i = 0; i < kStride; ++i) window[1 + i] = own[i];
  if constexpr (kSide > kStride + 1) window[kStride + 1] = __shfl_down_sync(~0u, own[0], 1);
}

template <class T, int kSide, int kStride>
__global__ void __launch_bounds__(kBlockThreads, 4)
    quad_group_rows(const __grid_constant__ Arguments args,
                    const __grid_constant__ Tensors tensors) {
  constexpr int kTaps = kSide * kSide;
  constexpr int kSourceRows = (kWarpRows - 1) * kStride + kSide;
  __shared__ float4 filter[kGroupChannels][kTaps];  // of four result channels
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t above = args.row_tiles.quotient(block);
  const int32_t image = args.group_tiles.quotient(above);
  const int32_t group = above - image * args.groups;
  if (thread < kGroupChannels * kTaps) {
    const int32_t source = thread / kTaps, tap = thread % kTaps;
    const auto weight = [&](int32_t result) {
      const int64_t at = filter_at(args, group, result, source, tap / kSide, tap % kSide);
      return Element<T>::to_float(static_cast<const T*>(tensors.filter)[at]);
    };
    filter[source][tap] = make_float4(weight(0), weight(1), weight(2), weight(3));
  }
  __syncthreads();

  const int32_t tile = (block - above * args.row_tiles.divisor) * kWarps + thread / 32;
  const int32_t row_tile = args.column_tiles.quotient(tile);
  const int32_t lane = thread % 32, first_row = row_tile * kWarpRows;
  const int32_t column =
      (tile - row_tile * args.column_tiles.divisor) * args.tile_columns + lane - 1;
  if (first_row >= args.p) return;
  const int32_t first_source = first_row * kStride - args.pad_top;
  const bool has_column = column >= 0 && column * kStride < args.w;
  const T* source = static_cast<const T*>(tensors.source) + image * args.source.n +
                    group * kGroupChannels * args.source.c + first_source * args.source.h +
                    column * kStride;
  float sums[kWarpRows][kGroupChannels] = {};
#pragma unroll 1
  for (int32_t c = 0; c < kGroupChannels; ++c, source += args.source.c) {
    float pixels[kSourceRows][kStride];
#pragma unroll
    for (int i = 0; i < kSourceRows; ++i) {
      const bool has_row = static_cast<uint32_t>(first_source + i) < static_cast<uint32_t>(args.h);
      load_pixels(source + i * args.source.h, has_row && has_column, pixels[i]);
    }
    float4 weights[kTaps];
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) weights[tap] = filter[c][tap];
#pragma unroll
    for (int i = 0; i < kSourceRows; ++i) {
      float window[kSide];
      window_of<kSide, kStride>(pixels[i], window);
#pragma unroll
      for (int row = 0; row < kWarpRows; ++row) {
        const int r = i - row * kStride;
        if (r < 0 || r >= kSide) continue;
#pragma unroll
        for (int s = 0; s < kSide; ++s) {
          const float4& weight = weights[r * kSide + s];
          sums[row][0] = fmaf(window[s], weight.x, sums[row][0]);
          sums[row][1] = fmaf(window[s], weight.y, sums[row][1]);
          sums[row][2] = fmaf(window[s], weight.z, sums[row][2]);
          sums[row][3] = fmaf(window[s], weight.w, sums[row][3]);
        }
      }
    }
  }
  if (lane == 0 || lane > args.tile_columns || column >= args.q) return;
  const int32_t first_channel = group * kGroupChannels;
  T* const result = static_cast<T*>(tensors.result) + image * args.result.n +
                    first_channel * args.result.c + first_row * args.result.h + column;
#pragma unroll
  for (int k = 0; k < kGroupChannels; ++k) {
    const float bias = bias_at<T>(tensors, first_channel + k);
#pragma unroll
    for (int row = 0; row < kWarpRows; ++row) {
      if (first_row + row >= args.p) break;
      result[k * args.result.c + row * args.result.h] = T(sums[row][k] + bias);
    }
  }
}

template <class T>
void launch_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  with_filter(plan, [&]<int kSide, int kStride>() {
    quad_group_rows<T, kSide, kStride>
        <<<grid_blocks(plan.blocks), kBlockThreads, 0, stream>>>(plan.args, tensors);
    check_launch("quad_groups rows");
  });
}

}  // namespace

void launch_rows(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat32) return launch_of<float>(plan, tensors, stream);
  if (type == DataType::kFloat16) return launch_of<__half>(plan, tensors, stream);
  launch_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::quad_groups
