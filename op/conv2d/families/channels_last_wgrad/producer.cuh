// One thread brings the operands of a split's patches, stage by stage.
#pragma once

#include "conv2d/families/channels_last_wgrad/filter_elements.cuh"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"

namespace haloconv::sm90::channels_last_wgrad {

template <class Args, Tile kTile>
__device__ __forceinline__ void produce(const CUtensorMap& grad_output_map,
                                        const CUtensorMap& input_map, const Args& args,
                                        const Shared<kTile>& shared, const TilePosition& tile,
                                        const ClusterPlace& place, int32_t first_patch,
                                        int32_t patches) {
  const int32_t tap_w = tile.s * args.dilation_w - args.pad_left;
  const int32_t tap_h = tile.r * args.dilation_h - args.pad_top;
  PatchPlace patch(args, first_patch);
  RingPosition at;
  bool waits = true;
#pragma unroll 1
  for (; patches > 0; --patches) {
    mbarrier_wait(shared.empty + at.stage, at.parity ^ 1);
    expect_bytes(shared.full + at.stage, static_cast<uint32_t>(args.copied_bytes));
    const uint32_t full = shared_address_of(shared.full + at.stage);
    uint32_t to = shared.stage(at.stage);
    const int32_t q = patch.strip * args.columns, p = patch.band * args.rows;
    const int32_t n = patch.image * args.images;
    const BoxPlace output(args, q, p, n);
    const BoxPlace input(args, q * args.stride_w + tap_w, p * args.stride_h + tap_h, n);
    // When the first copy is ready: much is worked out before it.
    if (waits) wait_for_kernel_before();
    waits = false;
#pragma unroll
    for (int32_t i = 0; i < kTile.row_warpgroups; ++i) {
      if constexpr (Args::kOutputRows) {
        copy_box(to, &grad_output_map, full, q, tile.k + 64 * i, p, n);
      } else {
        copy_box(to, &grad_output_map, full, tile.k + 64 * i, output.first, output.second,
                 output.third);
      }
      to += args.grad_output_bytes;
    }
    if (args.cluster_tiles == 1) {
#pragma unroll 1
      for (int32_t i = 0; i < args.input_boxes; ++i) {
        copy_box(to, &input_map, full, tile.c + kTile.width * i, input.first, input.second,
                 input.third);
        to += args.input_bytes;
      }
    } else {
      // The blocks bring the boxes in turn, each for all.
#pragma unroll 1
      for (int32_t i = place.tile; i < args.input_boxes; i += args.cluster_tiles) {
        multicast_box(to + i * args.input_bytes, &input_map, full, place.sharers,
                      tile.c + kTile.width * i, input.first, input.second, input.third);
      }
    }
    patch.advance(args);
    at.advance(args.stages);
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
