// Input gradients with a stride of two, channels innermost, of 16 bits, by the matrix instruction
// of chips from compute capability 8.0 on. A period is two by two pixels of the result: by each of
// four shifts (u, v) it meets the source u rows and v columns before its own, pixel (a, b) by the
// tap (a + 2 * u, b + 2 * v). The shifts, of four channels each, are as deep as the instruction:
// thread t of four has shift (t / 2, t % 2). Its 16 rows are eight neighbouring periods of two
// rows, its eight columns a group's channels of the two pixels of a period's row a. So no product
// is with another group's filter.
//
// A block brings the window of a rectangle of periods to shared memory, of 16 groups, and each of
// its warps has the filters of four groups in registers.
#include "conv2d/device/grid.h"
#include "conv2d/families/quad_groups/filter.cuh"
#include "conv2d/families/quad_groups/window.cuh"
#include "cuda/check.h"
#include "cuda/copy_async.cuh"
#include "cuda/mma.cuh"

namespace haloconv::quad_groups {

namespace {

constexpr uint32_t kAllShifts = 15;

// Of a period's row a: what thread t's columns, channels of pixel n / 4, have of its shift.
template <class T, int kSide>
__device__ __forceinline__ void load_period_weights(const Arguments& args, const Tensors& tensors,
                                                    int32_t group, int32_t n, int32_t t,
                                                    uint32_t (&weights)[2][2]) {
  const int32_t column = n / 4 + t % 2 * 2;
#pragma unroll
  for (int a = 0; a < 2; ++a) {
    const int32_t row = a + t / 2 * 2;
    const T* const at =
        static_cast<const T*>(tensors.filter) + filter_at(args, group, n % 4, 0, row, column);
    uint16_t channels[kGroupChannels];
#pragma unroll
    for (int k = 0; k < kGroupChannels; ++k) {
      load_global_bits(at + k * args.filter_source, channels[k],
                       group < args.groups && row < kSide && column < kSide);
    }
    weights[a][0] = channels[0] | static_cast<uint32_t>(channels[1]) << 16;
    weights[a][1] = channels[2] | static_cast<uint32_t>(channels[3]) << 16;
  }
}

// The two shifts of an axis by which a period meets the source; `own` is its own position there.
__device__ __forceinline__ uint32_t shifts_inside(int32_t own, int32_t extent) {
  return static_cast<uint32_t>(static_cast<uint32_t>(own) < static_cast<uint32_t>(extent)) |
         static_cast<uint32_t>(static_cast<uint32_t>(own - 1) < static_cast<uint32_t>(extent)) << 1;
}

// A thread's sums of a group: of each row of a period, of two channels in two periods.
using PeriodSums = float[2][4];

template <class T>
__device__ __forceinline__ void multiply_period(const uint32_t (&source)[4],
                                                const uint32_t (&weights)[2][2], PeriodSums& sums) {
#pragma unroll
  for (int a = 0; a < 2; ++a) multiply_add<T>(sums[a], source, weights[a]);
}

// Those of the sums that are NaN once more, by each shift for itself, so that what a sum does not
// have is not added: products with zeros beside the source, or in place of a tap that there is not.
template <class T, int kSide>
__device__ __forceinline__ void sum_exactly(const uint32_t (&source)[4],
                                            const uint32_t (&weights)[2][2],
                                            const uint32_t (&met)[2], int32_t t, PeriodSums& sums) {
  PeriodSums exact = {};
#pragma unroll 1
  for (int32_t shift = 0; shift < 4; ++shift) {
    const uint32_t mask = t == shift ? ~0u : 0;
    const uint32_t of_source[4] = {source[0] & mask, source[1] & mask, source[2] & mask,
                                   source[3] & mask};
    const uint32_t of_filter[2][2] = {{weights[0][0] & mask, weights[0][1] & mask},
                                      {weights[1][0] & mask, weights[1][1] & mask}};
    PeriodSums products = {};
    multiply_period<T>(of_source, of_filter, products);
    const bool has_column = t / 2 + shift % 2 * 2 < kSide;
#pragma unroll
    for (int a = 0; a < 2; ++a) {
      const bool has_tap = has_column && a + shift / 2 * 2 < kSide;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (has_tap && (met[i / 2] >> shift & 1) != 0) exact[a][i] += products[a][i];
      }
    }
  }
#pragma unroll
  for (int a = 0; a < 2; ++a) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (isnan(sums[a][i])) sums[a][i] = exact[a][i];
    }
  }
}

__device__ __forceinline__ bool has_nan(const PeriodSums& sums) {
  float all = 0;
#pragma unroll
  for (int a = 0; a < 2; ++a) {
#pragma unroll
    for (int i = 0; i < 4; ++i) all += 0.0f * sums[a][i];
  }
  return isnan(all);
}

// Of two threads each has two channels of four groups; then the first has all of the first two
// groups, the second of the others.
__device__ __forceinline__ uint4 groups_of_thread(const uint32_t (&words)[kWarpGroups],
                                                  bool is_second) {
  const uint32_t even = __shfl_xor_sync(~0u, is_second ? words[0] : words[2], 1);
  const uint32_t odd = __shfl_xor_sync(~0u, is_second ? words[1] : words[3], 1);
  return is_second ? make_uint4(even, words[2], odd, words[3])
                   : make_uint4(words[0], even, words[1], odd);
}

template <class T, int kSide>
__global__ void __launch_bounds__(kBlockThreads, 4)
    quad_group_periods(const __grid_constant__ Arguments args,
                       const __grid_constant__ Tensors tensors) {
#if __CUDA_ARCH__ >= 800
  constexpr int kWindowRows = kPeriodRows + 1, kWindowColumns = kPeriodColumns + 1;
  // Pixels of two rows that are read together are in different banks: four units apart.
  constexpr int kRowPitch = (kWindowColumns * kUnitPitch + 3) / 8 * 8 + 4;
  static_assert(kWarpGroups == 4);
  __shared__ uint4 window[kWindowRows * kRowPitch];
  const Rectangle at =
      rectangle_of<kPeriodRows, kPeriodColumns>(args, static_cast<int32_t>(blockIdx.x));
  const int32_t own_row = at.row + args.pad_top / 2, own_column = at.column + args.pad_left / 2;
  bring_window<T, kWindowRows, kWindowColumns, kRowPitch>(args, tensors, at, own_row - 1,
                                                          own_column - 1, window);

  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, n = lane / 4, t = lane % 4;
  const int32_t first_group = at.group + warp * kWarpGroups;
  uint32_t weights[kWarpGroups][2][2];
  float biases[kWarpGroups][2] = {};
#pragma unroll
  for (int g = 0; g < kWarpGroups; ++g) {
    load_period_weights<T, kSide>(args, tensors, first_group + g, n, t, weights[g]);
    if (first_group + g >= args.groups) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      biases[g][i] = bias_at<T>(tensors, (first_group + g) * kGroupChannels + t % 2 * 2 + i);
    }
  }
  wait_for_copies();
  __syncthreads();

  const int32_t group = first_group + t % 2 * 2;  // the first of two that the thread writes
  const int32_t first_y = at.row * 2 - args.pad_top % 2;
  const int32_t first_x = at.column * 2 - args.pad_left % 2 + t / 2;
  T* const result =
      static_cast<T*>(tensors.result) + at.image * args.result.n + group * kGroupChannels;
#pragma unroll 1
  for (int32_t part = 0; part < kPeriodRows / 2 * (kPeriodColumns / 8); ++part) {
    const int32_t row = part / (kPeriodColumns / 8) * 2;
    const int32_t column = part % (kPeriodColumns / 8) * 8 + n;
    const int32_t y = first_y + row * 2, x = first_x + column * 2;
    if (y >= args.p || first_x - t / 2 + (column - n) * 2 >= args.q) continue;
    // The shifts by which the thread's two periods meet the source.
    const uint32_t columns = shifts_inside(own_column + column, args.w);
    uint32_t met[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t rows = shifts_inside(own_row + row + i, args.h);
      met[i] = (rows & 1) * columns | (rows >> 1) * columns << 2;
    }
    const bool may_be_wrong = kSide < 4 || __any_sync(~0u, (met[0] & met[1]) != kAllShifts) != 0;
    const uint4* const pixels = window + (row + 1 - t / 2) * kRowPitch +
                                (column + 1 - t % 2) * kUnitPitch + warp * (kWarpGroups / 2);
    PeriodSums sums[kWarpGroups] = {};
#pragma unroll
    for (int pair = 0; pair < kWarpGroups / 2; ++pair) {
      const uint4 upper = pixels[pair], lower = pixels[kRowPitch + pair];
      const uint32_t sources[2][4] = {{upper.x, lower.x, upper.y, lower.y},
                                      {upper.z, lower.z, upper.w, lower.w}};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int g = pair * 2 + i;
        multiply_period<T>(sources[i], weights[g], sums[g]);
        if (may_be_wrong && __any_sync(~0u, has_nan(sums[g])) != 0) {
          sum_exactly<T, kSide>(sources[i], weights[g], met, t, sums[g]);
        }
      }
    }
    const bool has_column =
        group < args.groups && static_cast<uint32_t>(x) < static_cast<uint32_t>(args.q);
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t words[kWarpGroups];
#pragma unroll
        for (int g = 0; g < kWarpGroups; ++g) {
          words[g] = Element<T>::pair(sums[g][a][2 * i] + biases[g][0],
                                      sums[g][a][2 * i + 1] + biases[g][1]);
        }
        const uint4 both = groups_of_thread(words, t % 2 != 0);
        const int32_t y_of = y + i * 2 + a;
        if (has_column && static_cast<uint32_t>(y_of) < static_cast<uint32_t>(args.p)) {
          *reinterpret_cast<uint4*>(result + y_of * args.result.h + x * args.result.w) = both;
        }
      }
    }
  }
#endif
}

template <class T>
void launch_periods_of(const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  const auto kernel = plan.side == 4 ? &quad_group_periods<T, 4> : &quad_group_periods<T, 3>;
  kernel<<<grid_blocks(plan.blocks), kBlockThreads, 0, stream>>>(plan.args, tensors);
  check_launch("quad_groups periods");
}

}  // namespace

void launch_periods(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream) {
  if (type == DataType::kFloat16) return launch_periods_of<__half>(plan, tensors, stream);
  launch_periods_of<__nv_bfloat16>(plan, tensors, stream);
}

}  // namespace haloconv::quad_groups
