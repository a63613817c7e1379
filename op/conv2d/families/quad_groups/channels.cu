// Channels innermost, of 16 bits. Each lane has another group, so that neighbouring lanes read and
// write neighbouring channels, eight bytes each. A warp has a row of results, and the block's
// filter is in shared memory, in float32, as (tap, source channel, group) of four result channels.
#include "conv2d/device/grid.h"
#include "conv2d/families/quad_groups/filter.cuh"
#include "cuda/check.h"

namespace haloconv::quad_groups {

namespace {

constexpr int kLanes = 32;
// From a tap's quads to the next: one more than they are, so that taps are in different banks.
constexpr int kTapQuads = kGroupChannels * kLanes + 1;

template <class T>
__device__ __forceinline__ float channel_of(const uint2& pixel, int channel) {
  return Element<T>::value(channel < 2 ? pixel.x : pixel.y, channel % 2);
}

// Neighbouring threads have neighbouring taps, as the filter lies in memory: of its four input
// channels, which in a forward pass are the source's.
template <class T, int kTaps, int kSide>
__device__ __forceinline__ void bring_filter(const Arguments& args, const Tensors& tensors,
                                             int32_t first_group, float4* filter) {
  const bool are_sources = args.filter_source == 1;
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kTaps * kGroupChannels * kLanes;
       i += kBlockThreads) {
    const int32_t tap = i % kTaps, channel = i / kTaps;
    const int32_t lane = channel / kGroupChannels, k = channel % kGroupChannels;
    const int64_t at = filter_at(args, first_group + lane, are_sources ? k : 0, are_sources ? 0 : k,
                                 tap / kSide, tap % kSide);
    uint32_t words[2];
    load_global_bits(static_cast<const T*>(tensors.filter) + at, words,
                     first_group + lane < args.groups);
    const uint2 quad = make_uint2(words[0], words[1]);
    float4* const of_tap = filter + tap * kTapQuads + lane;
    if (are_sources) {
#pragma unroll
      for (int c = 0; c < kGroupChannels; ++c) {
        reinterpret_cast<float*>(of_tap + c * kLanes)[k] = channel_of<T>(quad, c);
      }
    } else {
      of_tap[k * kLanes] = make_float4(channel_of<T>(quad, 0), channel_of<T>(quad, 1),
                                       channel_of<T>(quad, 2), channel_of<T>(quad, 3));
    }
  }
}

template <class T, int kSide, int kStride>
__global__ void __launch_bounds__(kBlockThreads, 4)
    quad_group_channels(const __grid_constant__ Arguments args,
                        const __grid_constant__ Tensors tensors) {
  constexpr int kTaps = kSide * kSide;
  constexpr int kSourceColumns = (kLaneColumns - 1) * kStride + kSide;
  __shared__ float4 filter[kTaps * kTapQuads];
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kLanes;
  const int32_t all_rows = args.column_tiles.quotient(block);
  const int32_t group_tile = args.row_tiles.quotient(all_rows);
  const int32_t image = args.group_tiles.quotient(group_tile);
  const int32_t first_group = (group_tile - image * args.group_tiles.divisor) * kLanes;
  const int32_t row = (all_rows - group_tile * args.row_tiles.divisor) * kWarps + warp;
  const int32_t first_column = (block - all_rows * args.column_tiles.divisor) * kLaneColumns;
  bring_filter<T, kTaps, kSide>(args, tensors, first_group, filter);
  __syncthreads();

  const int32_t group = first_group + lane;
  if (row >= args.p || group >= args.groups) return;
  const int32_t first_source = first_column * kStride - kPadLeft;
  const T* const source = static_cast<const T*>(tensors.source) + image * args.source.n +
                          group * kGroupChannels + first_source * args.source.w;
  float sums[kLaneColumns][kGroupChannels] = {};
#pragma unroll 1
  for (int32_t r = 0; r < kSide; ++r) {
    const int32_t h = row * kStride - args.pad_top + r;
    const bool has_row = static_cast<uint32_t>(h) < static_cast<uint32_t>(args.h);
    uint2 pixels[kSourceColumns];
#pragma unroll
    for (int i = 0; i < kSourceColumns; ++i) {
      const bool inside =
          has_row && static_cast<uint32_t>(first_source + i) < static_cast<uint32_t>(args.w);
      uint32_t words[2];
      load_global_bits(source + h * args.source.h + i * args.source.w, words, inside);
      pixels[i] = make_uint2(words[0], words[1]);
    }
#pragma unroll
    for (int s = 0; s < kSide; ++s) {
      const float4* const of_tap = filter + (r * kSide + s) * kTapQuads + lane;
#pragma unroll
      for (int c = 0; c < kGroupChannels; ++c) {
        const float4 weight = of_tap[c * kLanes];
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) {
          const float value = channel_of<T>(pixels[column * kStride + s], c);
          sums[column][0] = fmaf(value, weight.x, sums[column][0]);
          sums[column][1] = fmaf(value, weight.y, sums[column][1]);
          sums[column][2] = fmaf(value, weight.z, sums[column][2]);
          sums[column][3] = fmaf(value, weight.w, sums[column][3]);
        }
      }
    }
  }
  float biases[kGroupChannels];
#pragma unroll
  for (int k = 0; k < kGroupChannels; ++k) {
    biases[k] = bias_at<T>(tensors, group * kGroupChannels + k);
  }
  T* const result = static_cast<T*>(tensors.result) + image * args.result.n +
                    group * kGroupChannels + row * args.result.h + first_column * args.result.w;
#pragma unroll
  for (int column = 0; column < kLaneColumns; ++column) {
    if (first_column + column >= args.q) break;
    const float* const of_column = sums[column];
    const uint32_t words[2] = {
        Element<T>::pair(of_column[0] + biases[0], of_column[1] + biases[1]),
        Element<T>::pair(of_column[2] + biases[2], of_column[3] + biases[3])};
    store_global_bits(result + column * args.result.w, words, true);
  }
}

template <class T>
void launch_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  with_filter(plan, [&]<int kSide, int kStride>() {
    quad_group_channels<T, kSide, kStride>
        <<<grid_blocks(plan.blocks), kBlockThreads, 0, stream>>>(plan.args, tensors);
    check_launch("quad_groups channels");
  });
}

}  // namespace

void launch_channels(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat16) return launch_of<__half>(plan, tensors, stream);
  launch_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::quad_groups
