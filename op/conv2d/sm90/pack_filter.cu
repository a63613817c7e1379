#include "conv2d/sm90/pack_filter.h"

#include <algorithm>

#include "conv2d/integers.h"
#include "conv2d/sm90/round.cuh"
#include "cuda_check.h"

namespace haloconv::sm90 {

namespace {

constexpr int kPackThreads = 256;
constexpr int kRows = 16;        // of a block: a warp's share of the instruction
constexpr int kBlockSteps = 16;  // at most: steps (chunk, tap) at a time

// Grid: x chunks (of padded steps too), block_chunks each; y 16 rows each; z groups. The rows
// pass through shared memory, so that reads run along taps and channels and writes along threads.
__global__ void __launch_bounds__(kPackThreads)
    pack_filter_kernel(const __grid_constant__ PackArguments args, int32_t block_chunks) {
  __shared__ uint32_t values[kRows][kBlockSteps * kChunk + 1];
  const auto first_row = static_cast<int32_t>(blockIdx.y) * kRows;
  const auto first_chunk = static_cast<int32_t>(blockIdx.x) * block_chunks;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const float* const filter = args.filter + blockIdx.z * args.group;
  const int64_t row_group = int64_t{blockIdx.z} * args.row_groups + first_row / kRowsOfGroup;
  const int32_t warp = first_row % kRowsOfGroup / kRows;
  for (int32_t first_tap = 0; first_tap < args.taps; first_tap += kBlockSteps) {
    const int32_t taps = min(kBlockSteps, args.taps - first_tap);
    const int32_t values_of_row = block_chunks * kChunk * taps;
#pragma unroll 4
    for (int32_t i = thread; i < kRows * values_of_row; i += kPackThreads) {
      const int32_t row = i / values_of_row;
      const int32_t in_row = i - row * values_of_row;
      const int32_t channel = in_row / taps;
      const int32_t tap = first_tap + in_row - channel * taps;
      const int32_t c = first_chunk * kChunk + channel;
      const int32_t k = first_row + row;
      float value = 0;
      if (c < args.channels && k < args.rows) {
        const int32_t r = args.first_r + tap / args.taps_s * args.step_r;
        const int32_t s = args.first_s + tap % args.taps_s * args.step_s;
        value = filter[k * args.row + c * args.channel + r * args.r + s * args.s];
      }
      values[row][in_row] = round_to_tf32(value);
    }
    __syncthreads();
    for (int32_t i = thread; i < block_chunks * taps * 32; i += kPackThreads) {
      const int32_t chunk = i / 32 / taps;
      const int32_t tap = i / 32 - chunk * taps;
      const int64_t step = int64_t{first_chunk + chunk} * args.taps + first_tap + tap;
      if (step >= args.packed_steps) break;
      const int32_t row = i % 32 / 4;
      const int32_t at = (chunk * kChunk + i % 4) * taps + tap;
      args.packed[(row_group * args.packed_steps + step) * 128 + warp * 32 + i % 32] =
          make_uint4(values[row][at], values[row + 8][at], values[row][at + 4 * taps],
                     values[row + 8][at + 4 * taps]);
    }
    __syncthreads();
  }
}

}  // namespace

void launch_pack_filter(const PackArguments& args, int32_t groups, cudaStream_t stream) {
  const int32_t block_chunks = std::max(1, kBlockSteps / args.taps);
  const dim3 grid(static_cast<unsigned>(ceil_div(args.packed_steps, args.taps * block_chunks)),
                  static_cast<unsigned>(args.row_groups * (kRowsOfGroup / kRows)),
                  static_cast<unsigned>(groups));
  pack_filter_kernel<<<grid, kPackThreads, 0, stream>>>(args, block_chunks);
  check_launch("sm90 pack_filter");
}

}  // namespace haloconv::sm90
