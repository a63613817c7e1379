// Channels innermost, of 16 bits, by the matrix instruction of chips from compute capability 8.0
// on. A filter row's taps, of four channels each, are as deep as the instruction: thread t of four
// has those of tap t. Its 16 rows are eight neighbouring results of two rows, and four of its eight
// columns are the result channels of one group; the others go unused, because a product with zeros
// of another group's filter would be NaN for infinities.
//
// A block brings the window of a rectangle of results to shared memory, of 16 groups, and each of
// its warps has the filters of four groups in registers.
#include "conv2d/device/grid.h"
#include "conv2d/families/quad_groups/filter.cuh"
#include "conv2d/families/quad_groups/window.cuh"
#include "cuda/check.h"
#include "cuda/copy_async.cuh"
#include "cuda/mma.cuh"

namespace haloconv::quad_groups {

namespace {

// The filter of a group, as the matrix instruction's second operand: (row, word).
template <class T, int kSide>
__device__ __forceinline__ void load_weights(const Arguments& args, const Tensors& tensors,
                                             int32_t group, int32_t result, int32_t tap,
                                             uint32_t (&weights)[kSide][2]) {
  const bool exists = group < args.groups && result < kGroupChannels && tap < kSide;
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const T* const at =
        static_cast<const T*>(tensors.filter) + filter_at(args, group, result, 0, r, tap);
    if (args.filter_source == 1) {
      load_global_bits(at, weights[r], exists);
    } else {
      uint16_t channels[kGroupChannels];
#pragma unroll
      for (int c = 0; c < kGroupChannels; ++c) {
        load_global_bits(at + c * args.filter_source, channels[c], exists);
      }
      weights[r][0] = channels[0] | static_cast<uint32_t>(channels[1]) << 16;
      weights[r][1] = channels[2] | static_cast<uint32_t>(channels[3]) << 16;
    }
  }
}

// Of four threads the first two have two channels of four groups each; then each has the four
// channels of a group.
__device__ __forceinline__ uint2 group_of_thread(const uint32_t (&words)[kWarpGroups],
                                                 int32_t thread) {
  const uint32_t third = __shfl_xor_sync(~0u, words[2], 2);
  const uint32_t fourth = __shfl_xor_sync(~0u, words[3], 2);
  const uint32_t even = thread < 2 ? words[0] : third, odd = thread < 2 ? words[1] : fourth;
  const bool is_odd = thread % 2 != 0;
  const uint32_t other = __shfl_xor_sync(~0u, is_odd ? even : odd, 1);
  return is_odd ? make_uint2(other, odd) : make_uint2(even, other);
}

template <class T, int kSide, int kStride>
__global__ void __launch_bounds__(kBlockThreads, 4)
    quad_group_products(const __grid_constant__ Arguments args,
                        const __grid_constant__ Tensors tensors) {
#if __CUDA_ARCH__ >= 800
  constexpr int kColumns = product_columns(kStride);
  constexpr int kWindowRows = (kProductRows - 1) * kStride + kSide;
  constexpr int kWindowColumns = (kColumns - 1) * kStride + kSide;
  constexpr int kMetRows = kStride + kSide;  // by two rows of results
  static_assert(kWarpGroups == 4);
  __shared__ uint4 window[kWindowRows * kWindowColumns * kUnitPitch];
  const Rectangle at = rectangle_of<kProductRows, kColumns>(args, static_cast<int32_t>(blockIdx.x));
  bring_window<T, kWindowRows, kWindowColumns>(args, tensors, at, at.row * kStride - args.pad_top,
                                               at.column * kStride - kPadLeft, window);

  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, row_of_eight = lane / 4,
                t = lane % 4;
  const int32_t first_group = at.group + warp * kWarpGroups;
  uint32_t weights[kWarpGroups][kSide][2];
  float biases[kWarpGroups][2] = {};
#pragma unroll
  for (int g = 0; g < kWarpGroups; ++g) {
    load_weights<T, kSide>(args, tensors, first_group + g, row_of_eight, t, weights[g]);
    if (first_group + g >= args.groups || t >= 2) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      biases[g][i] = bias_at<T>(tensors, (first_group + g) * kGroupChannels + 2 * t + i);
    }
  }
  wait_for_copies();
  __syncthreads();

  const int32_t group = first_group + t;
  T* const result =
      static_cast<T*>(tensors.result) + at.image * args.result.n + group * kGroupChannels;
  const int32_t tap = min(t, kSide - 1);
#pragma unroll 1
  for (int32_t part = 0; part < kProductRows / 2 * (kColumns / 8); ++part) {
    const int32_t first_row = part / (kColumns / 8) * 2;
    const int32_t column = part % (kColumns / 8) * 8 + row_of_eight;
    if (at.row + first_row >= args.p || at.column + column - row_of_eight >= args.q) continue;
    const uint4* const pixels =
        window + (first_row * kStride * kWindowColumns + column * kStride + tap) * kUnitPitch +
        warp * (kWarpGroups / 2);
    float sums[kWarpGroups][4] = {};
#pragma unroll
    for (int pair = 0; pair < kWarpGroups / 2; ++pair) {
      uint4 rows[kMetRows];
#pragma unroll
      for (int i = 0; i < kMetRows; ++i) {
        rows[i] = pixels[i * (kWindowColumns * kUnitPitch) + pair];
        // The fourth tap of three.
        if (t >= kSide) rows[i] = make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
        const uint4 &upper = rows[r], &lower = rows[r + kStride];
        multiply_add<T>(sums[2 * pair], {upper.x, lower.x, upper.y, lower.y}, weights[2 * pair][r]);
        multiply_add<T>(sums[2 * pair + 1], {upper.z, lower.z, upper.w, lower.w},
                        weights[2 * pair + 1][r]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t words[kWarpGroups];
#pragma unroll
      for (int g = 0; g < kWarpGroups; ++g) {
        words[g] =
            Element<T>::pair(sums[g][2 * i] + biases[g][0], sums[g][2 * i + 1] + biases[g][1]);
      }
      const uint2 quad = group_of_thread(words, t);
      const uint32_t bits[2] = {quad.x, quad.y};
      const int32_t row = at.row + first_row + i;
      store_global_bits(result + row * args.result.h + (at.column + column) * args.result.w, bits,
                        group < args.groups && row < args.p && at.column + column < args.q);
    }
  }
#endif
}

template <class T>
void launch_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  with_filter(plan, [&]<int kSide, int kStride>() {
    quad_group_products<T, kSide, kStride>
        <<<grid_blocks(plan.blocks), kBlockThreads, 0, stream>>>(plan.args, tensors);
    check_launch("quad_groups products");
  });
}

}  // namespace

void launch_products(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat16) return launch_of<__half>(plan, tensors, stream);
  launch_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::quad_groups
