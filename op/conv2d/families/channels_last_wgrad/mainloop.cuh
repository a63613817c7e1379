// A math warpgroup's part of a tile, over the stages that the producer fills.
#pragma once

#include "conv2d/families/channels_last_wgrad/filter_elements.cuh"
#include "conv2d/families/channels_last_wgrad/row_end_products.cuh"
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
  // The same, but the second eight pixels are those at another unit, further on.
  __device__ __forceinline__ uint64_t at(uint32_t unit, uint32_t second) const {
    constexpr uint32_t kDistance = 0x3fff;
    return uint64_t{low | unit} | uint64_t{(high & ~kDistance) | (second - unit)} << 32;
  }
};

// One stage's products. With kSumsBias, those of grad_output with ones too, in which a step of 16
// pixels takes 18 cycles, the reading of its operands: warps of their own, whose products would
// wait for these here, would hold the stage for longer.
template <class T, class Args, Tile kTile, bool kSumsBias>
class StageProducts {
 public:
  __device__ __forceinline__ StageProducts(const Args& args, const Shared<kTile>& shared)
      : args_(args),
        rows_(64, 0, 1024),
        columns_(kTile.width, args.axes.chunk.bytes, args.group_bytes),
        instruction_units_(args.axes.instruction.bytes >> 4),
        zeros_(PixelOperand::unit(shared_address_of(shared.zeros))),
        ones_(PixelOperand::unit(shared_address_of(shared.ones))) {}

  // Of operands that begin at units a and b.
  __device__ __forceinline__ void add_to(Sums<T, kTile>& sums, BiasSums& bias,
                                         const PatchExtent& extent, uint32_t a, uint32_t b) const {
    const int32_t groups = extent.groups;
    if constexpr (Args::kOutputRows) {
      int32_t left = extent.rows;
#pragma unroll 1
      do {
        if (groups == kRowColumns / 8) {
          wgmma_fence();
#pragma unroll
          for (uint32_t step = 0; step < kRowColumns / 16; ++step) {
            multiply<false>(sums, bias, a + step * kStepRows, b + step * step_columns());
          }
        } else {
          add_groups(sums, bias, groups, a, b);
        }
        a += kRowColumns * 64 * 2 >> 4;
        b += args_.row_bytes >> 4;
      } while (--left > 0);
    } else {
      add_groups(sums, bias, groups, a, b);
    }
  }

  // The same without some steps.
  __device__ __forceinline__ void add_others_to(Sums<T, kTile>& sums, BiasSums& bias,
                                                const PatchExtent& extent, SpoiledSteps spoiled,
                                                uint32_t a, uint32_t b) const {
    if constexpr (Args::kOutputRows) {
#pragma unroll 1
      for (int32_t left = extent.rows; left > 0; --left, spoiled >>= 1) {
        const int32_t others = (spoiled & 1) != 0 ? (extent.groups - 1) / 2 * 2 : extent.groups;
        add_groups(sums, bias, others, a, b);
        a += kRowColumns * 64 * 2 >> 4;
        b += args_.row_bytes >> 4;
      }
    } else {
#pragma unroll 1
      for (int32_t left = extent.groups; left > 0; left -= 2, spoiled >>= 1) {
        if ((spoiled & 1) == 0) add_groups(sums, bias, min(left, 2), a, b);
        a += kStepRows;
        b += step_columns();
      }
    }
  }

 private:
  // Units from one step of 16 pixels to the next.
  static constexpr uint32_t kStepRows = (Args::kOutputRows ? 16 * 2 : 16 * 64 * 2) >> 4;
  __device__ __forceinline__ uint32_t step_columns() const {
    return Args::kOutputRows ? 16 * kTile.width * 2 >> 4 : args_.group_bytes >> 3;
  }

  __device__ __forceinline__ void add_groups(Sums<T, kTile>& sums, BiasSums& bias, int32_t groups,
                                             uint32_t a, uint32_t b) const {
#pragma unroll 1
    for (int32_t steps = groups / 2; steps > 0; --steps) {
      wgmma_fence();
      multiply<false>(sums, bias, a, b);
      a += kStepRows;
      b += step_columns();
    }
    if (groups % 2 == 0) return;
    wgmma_fence();
    multiply<true>(sums, bias, a, b);
  }

  // kOdd: grad_output's second eight pixels are zeros, and so are the input's.
  template <bool kOdd>
  __device__ __forceinline__ void multiply(Sums<T, kTile>& sums, BiasSums& bias, uint32_t a,
                                           uint32_t b) const {
#pragma unroll
    for (int i = 0; i < kTile.instructions; ++i) {
      const uint32_t unit = b + i * instruction_units_;
      wgmma_shared<T, kTile.n(), !Args::kOutputRows, true>(
          sums[i], rows_.at(a), kOdd ? columns_.at(unit, zeros_) : columns_.at(unit));
    }
    if constexpr (kSumsBias) {
      // Without a swizzle; both eights of pixels are the same ones.
      wgmma_shared<T, 8, !Args::kOutputRows, true>(bias, rows_.at(a), uint64_t{ones_});
    }
  }

  const Args& args_;
  const PixelOperand rows_, columns_;
  const uint32_t instruction_units_, zeros_, ones_;
};

template <class T, bool kSumsBias, class Args, Tile kTile>
__device__ __forceinline__ void multiply(const Args& args, const Shared<kTile>& shared,
                                         const ClusterPlace& place, const TilePosition& tile,
                                         int32_t warpgroup, int32_t first_patch, int32_t patches,
                                         Sums<T, kTile>& sums, BiasSums& bias) {
  const StageProducts<T, Args, kTile, kSumsBias> products(args, shared);
  const RowEnds<T, Args, kTile> row_ends(args, shared, tile.s);
  const uint32_t rows_at = warpgroup % kTile.row_warpgroups * args.grad_output_bytes;
  const uint32_t boxes_at = kTile.row_warpgroups * args.grad_output_bytes;
  const uint32_t columns_at =
      boxes_at + warpgroup / kTile.row_warpgroups * args.axes.warpgroup.bytes;
  RingPosition at;
  PatchPlace patch(args, first_patch);
  PatchExtent extent = args.extent_of(patch);
  const auto finish = [&] {
    wgmma_wait<0>();
    wgmma_settle(sums);
    if constexpr (kSumsBias) wgmma_settle(bias);
  };
  // Up to a stage whose zeros meet what is not finite, which is rare, and then from the next on: a
  // condition around it in the inner loop would make the compiler wait for each instruction there.
  do {
    int32_t before = -1;  // the stage that the instructions before these read
    bool is_spoiled = false;
#pragma unroll 1
    do {
      mbarrier_wait(shared.full + at.stage, at.parity);
      const uint32_t stage = shared.stage(at.stage);
      if (extent.ends_row && row_ends.meet_pixels() && row_ends.meet_nonfinite(stage + boxes_at)) {
        is_spoiled = true;
        break;
      }
      products.add_to(sums, bias, extent, PixelOperand::unit(stage + rows_at),
                      PixelOperand::unit(stage + columns_at));
      wgmma_commit();
      wgmma_wait<1>();
      if (before >= 0) shared.release(args, place, before);
      before = at.stage;
      at.advance(args.stages);
      // While these run, what the next ones are.
      patch.advance(args);
      extent = args.extent_of(patch);
    } while (--patches > 0);
    finish();
    if (!is_spoiled) return;
    if (before >= 0) shared.release(args, place, before);
    const uint32_t stage = shared.stage(at.stage);
    SpoiledSteps spoiled = 0;
    if (args.row_ends.has_one_column) {
      row_ends.clear(stage + boxes_at);
    } else {
      spoiled = row_ends.spoiled_steps(stage + boxes_at, extent);
      RowEndProducts<T, Args, kTile, kSumsBias>(args).add_to(sums, bias, extent, spoiled,
                                                             stage + rows_at, stage + columns_at);
    }
    products.add_others_to(sums, bias, extent, spoiled, PixelOperand::unit(stage + rows_at),
                           PixelOperand::unit(stage + columns_at));
    wgmma_commit();
    finish();
    shared.release(args, place, at.stage);
    patch.advance(args);
    extent = args.extent_of(patch);
    at.advance(args.stages);
  } while (--patches > 0);
}

}  // namespace haloconv::sm90::channels_last_wgrad
