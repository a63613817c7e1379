// A math warpgroup's part of a tile, over the stages that the producer fills.
#pragma once

#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// Descriptors of operands whose depth is pixels: eight of them are a group, and the swizzle's rows
// of `width` channels lie one after the other. Addresses and distances are in units of 16 bytes.
struct PixelOperand {
  uint32_t low, high;

  // The unit at an address, which in a cluster has the block's rank above its 18 bits.
  static __device__ __forceinline__ uint32_t unit(uint32_t address) {
    return (address & 0x3ffff) >> 4;
  }

  // To the next `width` rows or columns, and to the next eight pixels.
  __device__ __forceinline__ PixelOperand(int32_t width, int32_t chunk_bytes, int32_t group_bytes) {
    const uint32_t swizzle = width == 64 ? 1 : width == 32 ? 2 : 3;  // of 128, 64 or 32 bytes
    low = static_cast<uint32_t>(chunk_bytes >> 4) << 16;
    high = static_cast<uint32_t>(group_bytes >> 4) | swizzle << 30;
  }

  __device__ __forceinline__ uint64_t at(uint32_t unit) const {
    return uint64_t{low | unit} | uint64_t{high} << 32;
  }
};

// nvcc 12.4 fails with an internal error on an alias without the struct.
template <Tile kTile>
struct SumsOf {
  using Type = float[kTile.instructions][kTile.n() / 2];
};
template <class T, Tile kTile>
using Sums = typename SumsOf<kTile>::Type;

// A stage's products, of operands that begin at units a and b, where grad_output has the columns
// of a row side by side.
template <class T, Tile kTile>
__device__ __forceinline__ void multiply_rows(const RowsArguments& args, const PixelOperand& rows,
                                              const PixelOperand& columns, uint32_t a, uint32_t b,
                                              uint32_t instruction_units, Sums<T, kTile>& sums) {
  constexpr uint32_t kPixelUnits = kTile.width * 2 / 16;
  int32_t left = args.rows;
#pragma unroll 1
  do {
    wgmma_fence();
#pragma unroll
    for (uint32_t column = 0; column < kRowColumns; column += 16) {
#pragma unroll
      for (int i = 0; i < kTile.instructions; ++i) {
        wgmma_shared<T, kTile.n(), false, true>(
            sums[i], rows.at(a + (column * 2 >> 4)),
            columns.at(b + column * kPixelUnits + i * instruction_units));
      }
    }
    a += kRowColumns * 64 * 2 >> 4;
    b += args.row_bytes >> 4;
  } while (--left > 0);
}

template <class T, class Args, Tile kTile>
__device__ __forceinline__ void multiply(const Args& args, const Shared<kTile>& shared,
                                         const ClusterPlace& place, int32_t warpgroup,
                                         int32_t patches, Sums<T, kTile>& sums) {
  const PixelOperand rows(64, 0, 1024);
  const PixelOperand columns(kTile.width, args.axes.chunk.bytes, args.group_bytes);
  const uint32_t rows_at = warpgroup % kTile.row_warpgroups * args.grad_output_bytes;
  const uint32_t columns_at = kTile.row_warpgroups * args.grad_output_bytes +
                              warpgroup / kTile.row_warpgroups * args.axes.warpgroup.bytes;
  const uint32_t instruction_units = args.axes.instruction.bytes >> 4;
  const uint32_t step_units = args.group_bytes >> 3;
  RingPosition at;
  int32_t before = -1;  // the stage that the instructions before these read
  do {
    mbarrier_wait(shared.full + at.stage, at.parity);
    const uint32_t stage = shared.stage(at.stage);
    uint32_t a = PixelOperand::unit(stage + rows_at), b = PixelOperand::unit(stage + columns_at);
    if constexpr (Args::kOutputRows) {
      multiply_rows<T, kTile>(args, rows, columns, a, b, instruction_units, sums);
    } else {
      int32_t steps = args.k_steps;
#pragma unroll 1
      do {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTile.instructions; ++i) {
          wgmma_shared<T, kTile.n(), true, true>(sums[i], rows.at(a),
                                                 columns.at(b + i * instruction_units));
        }
        a += 2048 >> 4;
        b += step_units;
      } while (--steps > 0);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (before >= 0) shared.release(args, place, before);
    before = at.stage;
    at.advance(args.stages);
  } while (--patches > 0);
  wgmma_wait<0>();
  wgmma_settle(sums);
}

}  // namespace haloconv::sm90::channels_last_wgrad
