// A block's shared memory and registers.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last_tf32_wgrad/arguments.h"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

struct Barriers {
  uint64_t full[kMaxStages];
  uint64_t transposed[kTransposed], empty[kTransposed];
};

// Registers of a thread: the block starts with as many for each, which the warpgroups share out
// anew. Asking for more than there are would wait for ever.
struct RegisterShares {
  int at_start, other, math;

  HALOCONV_HOST_DEVICE constexpr explicit RegisterShares(const Tile& tile)
      : at_start(64 * 1024 / tile.threads() / 8 * 8),
        other(tile.warpgroups == 3 ? 56 : 64),
        math((at_start * tile.threads() - other * tile.transposing_threads()) /
             tile.math_threads() / 8 * 8) {}
};

template <Tile kTile>
struct Shared {
  unsigned char *stages, *transposed;
  int32_t stage_bytes, transposed_bytes;

  __device__ __forceinline__ Shared(const Arguments& args, unsigned char* base)
      : stage_bytes(args.stage_bytes(kTile)), transposed_bytes(args.transposed_bytes(kTile)) {
    const uint32_t address = shared_address_of(base);
    stages = base + ((address + 1023) / 1024 * 1024 - address);
    transposed = stages + args.stages * stage_bytes;
  }
};

// Transposed, rows of 128 bytes are swizzled over their length, and eight rows follow eight.
__device__ __forceinline__ constexpr OperandLayout transposed_layout() {
  return {1, uint32_t{1} << 30 | 8 * kPixelBytes / 16};
}

// nvcc 12.4 fails with an internal error on an alias without the struct.
template <Tile kTile>
struct SumsOf {
  using Type = float[kTile.blocks][kTile.instructions][kInstructionColumns / 2];
};
template <Tile kTile>
using Sums = typename SumsOf<kTile>::Type;

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
