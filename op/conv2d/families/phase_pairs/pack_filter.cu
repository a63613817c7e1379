#include "conv2d/families/phase_pairs/pack_filter.h"

#include "conv2d/device/round.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::phase_pairs {

namespace {

constexpr int kPackThreads = 128;

// A thread packs all taps of four source channels for one channel of the result. Neighbouring
// threads have neighbouring channels, which are side by side in the packed filter.
__global__ void __launch_bounds__(kPackThreads)
    pack_filter_kernel(const __grid_constant__ Arguments args, const __grid_constant__ Tile tile,
                       const float* filter, unsigned char* packed) {
  const Pattern& pattern = tile.pattern;
  const int32_t channel = static_cast<int32_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (channel >= args.channel_tiles.divisor * tile.channels) return;
  const int32_t tile_index = channel / tile.channels, column = channel - tile_index * tile.channels;
  const auto eight = static_cast<int32_t>(blockIdx.y / 2),
             half = static_cast<int32_t>(blockIdx.y % 2);
  const int32_t eights = pattern.depth() / 8;
  const int32_t chunk = eight / eights;
  const float* from[4];
  bool exists[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int32_t source = eight * 8 + (args.interleaves ? 2 * i + half : i + 4 * half);
    exists[i] = channel < args.channels && source < args.filter_channels;
    from[i] = filter + (exists[i] ? source * args.filter_k + channel * args.filter_c : 0);
  }
  const int32_t operand_bytes = tile.channels * 32;
  for (int32_t p = 0; p < args.row_phases.divisor; ++p) {
    const RowPhase& phase = args.phase[p];
    unsigned char* to = packed + phase.packed_at +
                        (int64_t{tile_index} * args.chunks + chunk) * phase.step_bytes +
                        eight % eights * pattern.slots() * operand_bytes + column / 8 * 256 +
                        half * 128 + column % 8 * 16;
    for (int32_t tap = 0; tap < phase.taps; ++tap) {
      const int64_t row = (phase.first_r - tap * args.step_r) * args.filter_r;
      for (int shift = 0; shift < pattern.shifts; ++shift) {
        for (int served = 0; served < kPhases; ++served) {
          if (!pattern.serves(shift, served)) continue;
          const int64_t at = row + (args.first_s[served] - shift * args.step_s) * args.filter_s;
          uint32_t words[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) words[i] = exists[i] ? round_to_tf32(from[i][at]) : 0;
          *reinterpret_cast<uint4*>(to + pattern.slot(shift, served) * operand_bytes) =
              make_uint4(words[0], words[1], words[2], words[3]);
        }
      }
      to += eights * pattern.slots() * operand_bytes;
    }
  }
}

}  // namespace

void launch_pack_filter(const Arguments& args, const Tile& tile, const float* filter, void* packed,
                        cudaStream_t stream) {
  const int64_t channels = int64_t{args.channel_tiles.divisor} * tile.channels;
  const int64_t eights = int64_t{args.chunks} * (tile.pattern.depth() / 8);
  const dim3 grid(static_cast<unsigned>(ceil_div(channels, kPackThreads)),
                  static_cast<unsigned>(eights * 2));
  pack_filter_kernel<<<grid, kPackThreads, 0, stream>>>(args, tile, filter,
                                                        static_cast<unsigned char*>(packed));
  check_launch("phase_pairs pack_filter");
}

}  // namespace haloconv::phase_pairs
