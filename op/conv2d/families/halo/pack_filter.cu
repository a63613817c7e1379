#include "conv2d/families/halo/pack_filter.h"

#include "conv2d/device/element.cuh"
#include "cuda/check.h"

namespace haloconv::halo {

namespace {

constexpr int kPackThreads = 256;
constexpr int kRows = 16;  // of a block: a warp's share of the instruction

// Grid: x chunks (of padded steps too), block_chunks each, of the first phase, then of the next; y
// 16 rows each; z groups. The rows pass through shared memory, so that reads run along taps and
// channels and writes along threads.
template <class T>
__global__ void __launch_bounds__(kPackThreads)
    pack_filter_kernel(const __grid_constant__ PackArguments args) {
  constexpr int kChunk = 2 * Element<T>::kPerCell, kPerWord = Element<T>::kPerWord;
  __shared__ uint32_t values[kRows][kPackSteps * kChunk + 1];  // their bits
  __shared__ int64_t tap_at[kPackSteps];
  auto block = static_cast<int32_t>(blockIdx.x);
  int32_t index = 0;
  while (block >= args.phases[index].blocks) block -= args.phases[index++].blocks;
  const PackPhase phase = args.phases[index];
  const auto first_row = static_cast<int32_t>(blockIdx.y) * kRows;
  const int32_t first_chunk = block * phase.block_chunks;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const uint32_t of_grid = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  for (int64_t i = int64_t{of_grid} * kPackThreads + thread; i < args.counter_count;
       i += int64_t{gridDim.x} * gridDim.y * gridDim.z * kPackThreads) {
    args.counters[i] = 0;
  }
  const T* const filter = static_cast<const T*>(args.filter) + blockIdx.z * args.group;
  const int64_t row_group = int64_t{blockIdx.z} * args.row_groups + first_row / kRowsOfGroup;
  uint4* const packed = static_cast<uint4*>(args.packed) + phase.packed_at;
  const int32_t warp = first_row % kRowsOfGroup / kRows;
  const bool rows_are_nearer = args.row < args.channel;
  for (int32_t first_tap = 0; first_tap < phase.taps; first_tap += kPackSteps) {
    const int32_t taps = min(kPackSteps, phase.taps - first_tap);
    const int32_t channels = phase.block_chunks * kChunk;
    if (args.folded.count == 1) {
      // A thread has all taps of a row and channel, so that it divides once for all of them. The
      // neighbours of one are those of the next thread.
      if (thread < taps) tap_at[thread] = args.tap_offset(phase, first_tap + thread);
      __syncthreads();
      for (int32_t i = thread; i < kRows * channels; i += kPackThreads) {
        const int32_t row = rows_are_nearer ? i % kRows : i / channels;
        const int32_t channel = rows_are_nearer ? i / kRows : i - row * channels;
        const int32_t c = first_chunk * kChunk + channel;
        const bool exists = first_row + row < args.rows && c < args.channels;
        const T* const from = filter + (first_row + row) * args.row + c * args.channel;
#pragma unroll 4
        for (int32_t tap = 0; tap < taps; ++tap) {
          values[row][channel * taps + tap] =
              Element<T>::bits_of_weight(exists ? from[tap_at[tap]] : T{});
        }
      }
    } else {
      const int32_t values_of_row = channels * taps;
#pragma unroll 4
      for (int32_t i = thread; i < kRows * values_of_row; i += kPackThreads) {
        const int32_t row = i / values_of_row;
        const int32_t in_row = i - row * values_of_row;
        const int32_t channel = in_row / taps;
        const int32_t tap = first_tap + in_row - channel * taps;
        const int64_t at = args.offset(phase, first_row + row, first_chunk * kChunk + channel, tap);
        values[row][in_row] = Element<T>::bits_of_weight(at >= 0 ? filter[at] : T{});
      }
    }
    __syncthreads();
    for (int32_t i = thread; i < phase.block_chunks * taps * 32; i += kPackThreads) {
      const int32_t chunk = i / 32 / taps;
      const int32_t tap = i / 32 - chunk * taps;
      const int64_t step = int64_t{first_chunk + chunk} * phase.taps + first_tap + tap;
      if (step >= phase.packed_steps) break;
      const int32_t row = i % 32 / 4;
      // Word i % 4 of the lower or upper half of the chunk's channels.
      const auto word = [&](int32_t of_row, int32_t half) {
        const int32_t channel = chunk * kChunk + half * kChunk / 2 + i % 4 * kPerWord;
        uint32_t bits = values[of_row][channel * taps + tap];
        if constexpr (kPerWord == 2) bits |= values[of_row][(channel + 1) * taps + tap] << 16;
        return bits;
      };
      packed[(row_group * phase.packed_steps + step) * 128 + warp * 32 + i % 32] =
          make_uint4(word(row, 0), word(row + 8, 0), word(row, 1), word(row + 8, 1));
    }
    __syncthreads();
  }
}

}  // namespace

template <class T>
void launch_pack_filter(const PackArguments& args, cudaStream_t stream) {
  int32_t blocks = 0;
  for (const PackPhase& phase : args.phases) blocks += phase.blocks;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(args.row_groups * (kRowsOfGroup / kRows)),
                  static_cast<unsigned>(args.groups));
  pack_filter_kernel<T><<<grid, kPackThreads, 0, stream>>>(args);
  check_launch("halo pack_filter");
}

template void launch_pack_filter<float>(const PackArguments&, cudaStream_t);
template void launch_pack_filter<PreciseFloat>(const PackArguments&, cudaStream_t);
template void launch_pack_filter<__half>(const PackArguments&, cudaStream_t);
template void launch_pack_filter<__nv_bfloat16>(const PackArguments&, cudaStream_t);

}  // namespace haloconv::halo
