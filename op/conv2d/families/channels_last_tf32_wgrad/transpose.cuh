// One warpgroup or two transpose grad_output, and one thread of each of their warps has the copy
// engine bring some of a patch's boxes: when a transposed buffer is free again, so is the stage
// that it was made of.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/round_for_product.cuh"
#include "conv2d/families/channels_last_tf32_wgrad/shared_memory.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

// Of a patch, the boxes that a transposing warp brings.
template <Tile kTile>
__device__ __forceinline__ void copy_boxes(const Arguments& args,
                                           const CUtensorMap& grad_output_map,
                                           const CUtensorMap& input_map,
                                           const Shared<kTile>& shared, Barriers& barriers,
                                           const TilePosition& tile, const PatchPlace& place,
                                           int32_t stage, int32_t warp) {
  constexpr int32_t kBoxes = kTile.columns() / 32, kWarps = kTile.transposing_threads() / 32;
  if (warp == 0) {
    expect_bytes(&barriers.full[stage], static_cast<uint32_t>(args.copied_bytes));
  }
  const uint32_t full = shared_address_of(&barriers.full[stage]);
  const uint32_t to = shared_address_of(shared.stages) + stage * shared.stage_bytes;
  const int32_t q = place.strip * args.columns, p = place.band * args.rows;
  const int32_t n = place.image * args.images;
  if (warp < kBoxes) {
    const BoxPlace output(args, q, p, n);
    copy_box(to + warp * args.grad_output_bytes, &grad_output_map, full, tile.k + 32 * warp,
             output.first, output.second, output.third);
  }
  const BoxPlace input(args,
                       q * args.stride_w - args.pad_left + tile.first_s(args) * args.dilation_w,
                       p * args.stride_h - args.pad_top + tile.first_r(args) * args.dilation_h, n);
  // From the last warp on, which has fewer boxes of grad_output.
#pragma unroll 1
  for (int32_t i = kWarps - 1 - warp; i < 2 * args.tile_chunks; i += kWarps) {
    copy_box(to + kBoxes * args.grad_output_bytes + i * args.input_bytes, &input_map, full,
             tile.chunk * kChunkChannels + 32 * i, input.first, input.second, input.third);
  }
}

// Of four pixels, the channel `i` of four, rounded.
__device__ __forceinline__ uint4 channel_of(const float4 (&pixels)[4], int i) {
  const auto one = [&](const float4& four) {
    const float value = i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
    return round_for_product(__float_as_uint(value));
  };
  return make_uint4(one(pixels[0]), one(pixels[1]), one(pixels[2]), one(pixels[3]));
}

template <Tile kTile>
__device__ __forceinline__ void transpose(const Arguments& args, const CUtensorMap& grad_output_map,
                                          const CUtensorMap& input_map, const Shared<kTile>& shared,
                                          Barriers& barriers, const TilePosition& tile,
                                          int32_t split, int32_t first_patch, int32_t patches) {
  constexpr int kBoxes = kTile.columns() / 32;
  static_assert(kBoxes * 64 <= kTile.transposing_threads());
  const int32_t thread = static_cast<int32_t>(threadIdx.x) - kTile.math_threads();
  const int32_t warp = this_warp() - kTile.math_threads() / 32;
  const bool copies = thread % 32 == 0;
  PatchPlace next_place(args, first_patch);
  if (copies) {
    wait_for_kernel_before();
    for (int32_t i = 0; i < min(args.stages - kTransposed, patches); ++i) {
      copy_boxes<kTile>(args, grad_output_map, input_map, shared, barriers, tile, next_place, i,
                        warp);
      next_place.advance(args);
    }
  }
  __syncwarp();
  const TransposePlace place(kTile, thread);
  float4 bias = {};
  RingPosition at, buffer, next;
  for (int32_t i = 0; i < args.stages - kTransposed; ++i) next.advance(args.stages);
#pragma unroll 1
  for (int32_t patch = 0; patch < patches; ++patch) {
    mbarrier_wait(&barriers.empty[buffer.stage], buffer.parity ^ 1);
    if (copies && patch + args.stages - kTransposed < patches) {
      copy_boxes<kTile>(args, grad_output_map, input_map, shared, barriers, tile, next_place,
                        next.stage, warp);
      next_place.advance(args);
    }
    __syncwarp();
    next.advance(args.stages);
    mbarrier_wait(&barriers.full[at.stage], at.parity);
    const unsigned char* const from =
        shared.stages + at.stage * shared.stage_bytes + place.box * args.grad_output_bytes;
    unsigned char* const to =
        shared.transposed + buffer.stage * shared.transposed_bytes + place.box * 32 * kPixelBytes;
#pragma unroll 1
    for (int32_t block = place.block; block * kBlockGroups + place.group < args.groups;
         block += place.blocks) {
      float4 pixels[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pixels[i] = *reinterpret_cast<const float4*>(from + block * kBlockGroups * 8 * kPixelBytes +
                                                     place.from(i));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<uint4*>(to + block * kTile.columns() * kPixelBytes + place.to(i)) =
            channel_of(pixels, i);
        bias.x += pixels[i].x, bias.y += pixels[i].y;
        bias.z += pixels[i].z, bias.w += pixels[i].w;
      }
    }
    // The matrix instruction reads by another path than these writes take.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                               cuda::ptx::space_shared, &barriers.transposed[buffer.stage]);
    at.advance(args.stages);
    buffer.advance(kTransposed);
  }
  if (!args.with_bias || !tile.is_first_of_rows()) return;
  // The threads that have a channel's pixels add them in the transposed buffer that the last patch
  // does not use.
  constexpr int kSharers = kTile.transposing_threads() / (8 * kBoxes);
  auto* const sums =
      reinterpret_cast<float4*>(shared.transposed + buffer.stage * shared.transposed_bytes);
  mbarrier_wait(&barriers.empty[buffer.stage], buffer.parity ^ 1);
  sums[((place.box * 8 + place.unit) * place.blocks + place.block) * 8 + thread % 8] = bias;
  asm volatile("bar.sync 2, %0;" ::"n"(kTile.transposing_threads()) : "memory");
  if (thread >= 8 * kBoxes) return;
  float4 sum = sums[thread * kSharers];
  for (int i = 1; i < kSharers; ++i) {
    const float4 more = sums[thread * kSharers + i];
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }
  const int32_t k = tile.k + thread * 4;
  if (k < args.k) {
    *reinterpret_cast<float4*>(args.bias_partial + int64_t{split} * args.k + k) = sum;
  }
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
