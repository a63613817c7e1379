// The gradient of filters, of float32 in TF32 with channels innermost on Hopper: arguments.h.
//
// Math warpgroups multiply. One warpgroup transposes grad_output, and its first thread has the copy
// engine bring the patches: when a transposed buffer is free again, so is the stage that it was
// made of.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/element.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last_tf32_wgrad/arguments.h"
#include "cuda/mbarrier.cuh"
#include "cuda/registers.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

// A tile as a type, which nvcc takes as a kernel's template argument.
template <int32_t... kMembers>
struct TileConstant {
  static constexpr Tile kTile = {kMembers...};
};

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
        other(tile.warpgroups == 3 ? 56 : 72),
        math((at_start * tile.threads() - other * 128) / tile.math_threads() / 8 * 8) {}
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

template <Tile kTile>
__device__ __forceinline__ void copy_patch(const Arguments& args,
                                           const CUtensorMap& grad_output_map,
                                           const CUtensorMap& input_map,
                                           const Shared<kTile>& shared, Barriers& barriers,
                                           const TilePosition& tile, int32_t patch, int32_t stage) {
  const PatchPlace place(args, patch);
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                       cuda::ptx::space_shared, &barriers.full[stage],
                                       static_cast<uint32_t>(args.copied_bytes));
  const uint32_t full = shared_address_of(&barriers.full[stage]);
  uint32_t to = shared_address_of(shared.stages) + stage * shared.stage_bytes;
  const int32_t q = place.strip * args.columns, p = place.band * args.rows;
  const int32_t n = place.image * args.images;
  const BoxPlace output(args, q, p, n);
#pragma unroll 1
  for (int32_t i = 0; i < kTile.columns() / 32; ++i) {
    copy_box(to, &grad_output_map, full, tile.k + 32 * i, output.first, output.second,
             output.third);
    to += args.grad_output_bytes;
  }
  const BoxPlace input(args,
                       q * args.stride_w - args.pad_left + tile.first_s(args) * args.dilation_w,
                       p * args.stride_h - args.pad_top + tile.first_r(args) * args.dilation_h, n);
#pragma unroll 1
  for (int32_t i = 0; i < 2 * args.tile_chunks; ++i) {
    copy_box(to, &input_map, full, tile.chunk * kChunkChannels + 32 * i, input.first, input.second,
             input.third);
    to += args.input_bytes;
  }
}

// One item: four LDS, four STS. The channels are stored in an order that differs from lane to lane,
// so that eight lanes write eight different banks of 16 bytes.
template <Tile kTile>
__device__ __forceinline__ void transpose_item(const TransposeItem& item, const unsigned char* from,
                                               unsigned char* to, float4& bias) {
  float values[4][4];  // [pixel][channel]
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto four = *reinterpret_cast<const float4*>(from + item.pixel_at(i));
    values[i][0] = four.x, values[i][1] = four.y, values[i][2] = four.z, values[i][3] = four.w;
    bias.x += four.x, bias.y += four.y, bias.z += four.z, bias.w += four.w;
  }
  const int32_t turn = item.unit / 2;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int32_t channel = (j + turn) % 4;
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = channel % 2 == 0 ? values[i][0] : values[i][1];
      const float high = channel % 2 == 0 ? values[i][2] : values[i][3];
      words[i] = round_to_tf32(channel < 2 ? low : high);
    }
    *reinterpret_cast<uint4*>(to + item.to + channel * 16) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

template <Tile kTile>
__device__ __forceinline__ void transpose(const Arguments& args, const CUtensorMap& grad_output_map,
                                          const CUtensorMap& input_map, const Shared<kTile>& shared,
                                          Barriers& barriers, const TilePosition& tile,
                                          int32_t split, int32_t first_patch, int32_t patches) {
  constexpr int kBoxes = kTile.columns() / 32;
  const int32_t thread = static_cast<int32_t>(threadIdx.x) - kTile.math_threads();
  const bool copies = thread == 0;
  if (copies) {
    for (int32_t i = 0; i < min(args.stages - kTransposed, patches); ++i) {
      copy_patch<kTile>(args, grad_output_map, input_map, shared, barriers, tile, first_patch + i,
                        i);
    }
  }
  // 16 items at a time: a thread's are all of the same channels.
  float4 bias{};
  RingPosition at, buffer, next;
  for (int32_t i = 0; i < args.stages - kTransposed; ++i) next.advance(args.stages);
#pragma unroll 1
  for (int32_t patch = 0; patch < patches; ++patch) {
    mbarrier_wait(&barriers.empty[buffer.stage], buffer.parity ^ 1);
    const int32_t ahead = patch + args.stages - kTransposed;
    if (copies && ahead < patches) {
      copy_patch<kTile>(args, grad_output_map, input_map, shared, barriers, tile,
                        first_patch + ahead, next.stage);
    }
    next.advance(args.stages);
    mbarrier_wait(&barriers.full[at.stage], at.parity);
    const unsigned char* const from = shared.stages + at.stage * shared.stage_bytes;
    unsigned char* const to = shared.transposed + buffer.stage * shared.transposed_bytes;
#pragma unroll 1
    for (int32_t item = thread / 8; item < args.groups * 2 * kBoxes; item += 16) {
      transpose_item<kTile>(TransposeItem(args, kTile, item, thread % 8), from, to, bias);
    }
    // The matrix instruction reads by another path than these writes take.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                               cuda::ptx::space_shared, &barriers.transposed[buffer.stage]);
    at.advance(args.stages);
    buffer.advance(kTransposed);
  }
  if (!args.with_bias || !tile.is_first_of_rows()) return;
  // Threads 8 * kBoxes apart have the same channels. The patches' stages are free: the sums that
  // are added here pass through the transposed buffer that the last patch does not use.
  static_assert(16 % kBoxes == 0);
  auto* const sums =
      reinterpret_cast<float4*>(shared.transposed + buffer.stage * shared.transposed_bytes);
  mbarrier_wait(&barriers.empty[buffer.stage], buffer.parity ^ 1);
  sums[thread] = bias;
  asm volatile("bar.sync 2, 128;" ::: "memory");
  if (thread >= 8 * kBoxes) return;
  for (int i = 8 * kBoxes; i < 128; i += 8 * kBoxes) {
    const float4 more = sums[thread + i];
    bias.x += more.x, bias.y += more.y, bias.z += more.z, bias.w += more.w;
  }
  const int32_t k = tile.k + thread / 8 * 32 + thread % 8 * 4;
  if (k < args.k) {
    *reinterpret_cast<float4*>(args.bias_partial + int64_t{split} * args.k + k) = bias;
  }
}

// nvcc 12.4 fails with an internal error on an alias without the struct.
template <Tile kTile>
struct SumsOf {
  using Type = float[kTile.blocks][kTile.instructions][kInstructionColumns / 2];
};
template <Tile kTile>
using Sums = typename SumsOf<kTile>::Type;

// The operand of a block for a group of pixels, rounded.
template <Tile kTile>
__device__ __forceinline__ uint4 load_rows(const Arguments& args, const unsigned char* boxes,
                                           int32_t warp, int32_t lane, int32_t pixel) {
  const auto even = *reinterpret_cast<const float2*>(
      boxes + input_bytes_at(args, warp, lane, pixel + lane % 4 * 2));
  const auto odd = *reinterpret_cast<const float2*>(
      boxes + input_bytes_at(args, warp, lane, pixel + lane % 4 * 2 + 1));
  return make_uint4(round_to_tf32(even.x), round_to_tf32(even.y), round_to_tf32(odd.x),
                    round_to_tf32(odd.y));
}

// Of all blocks, some groups from the box's pixel `pixel` on. `warp`: of the warpgroup.
template <Tile kTile, int kGroups>
__device__ __forceinline__ void multiply_groups(const Arguments& args, const unsigned char* stage,
                                                const int32_t (&boxes_at)[kTile.blocks],
                                                const int32_t (&first_pixel)[kTile.blocks],
                                                int32_t warp, int32_t lane, int32_t pixel,
                                                uint32_t columns, Sums<kTile>& sums) {
  constexpr OperandLayout kLayout = {kTile.columns(), 128 / 16};
  uint4 rows[kGroups][kTile.blocks];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < kTile.blocks; ++i) {
      rows[group][i] = load_rows<kTile>(args, stage + boxes_at[i], warp, lane,
                                        first_pixel[i] + pixel + group * args.group_pixels);
    }
  }
  wgmma_fence();
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < kTile.blocks; ++i) {
#pragma unroll
      for (int j = 0; j < kTile.instructions; ++j) {
        wgmma<float, kInstructionColumns>(
            sums[i][j], rows[group][i],
            operand(columns + group * 2 * kTile.columns() + j * kInstructionColumns, kLayout),
            true);
      }
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
}

// kEndsEarly: the last strips have fewer groups.
template <Tile kTile, bool kEndsEarly>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<kTile>& shared,
                                         Barriers& barriers, const TilePosition& tile,
                                         int32_t first_patch, int32_t patches, Sums<kTile>& sums) {
  constexpr OperandLayout kLayout = {kTile.columns(), 128 / 16};
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  int32_t first_pixel[kTile.blocks], boxes_at[kTile.blocks];
#pragma unroll
  for (int i = 0; i < kTile.blocks; ++i) {
    RowBlock block(args, tile, warp / 4 * kTile.blocks + i);
    // Blocks that do not exist compute the first one's, which nobody stores.
    if (!block.exists) block = RowBlock(args, tile, 0);
    first_pixel[i] = block.first_pixel(args, tile);
    boxes_at[i] =
        kTile.columns() / 32 * args.grad_output_bytes + block.chunk * 2 * args.input_bytes;
  }
  RingPosition at, buffer;
  // Patches up to the end of their row.
  int32_t strips =
      args.strips.divisor - (first_patch - args.strips.quotient(first_patch) * args.strips.divisor);
#pragma unroll 1
  do {
    mbarrier_wait(&barriers.full[at.stage], at.parity);
    mbarrier_wait(&barriers.transposed[buffer.stage], buffer.parity);
    const unsigned char* const stage = shared.stages + at.stage * shared.stage_bytes;
    uint32_t columns =
        operand_start(shared.transposed + buffer.stage * shared.transposed_bytes, kLayout);
    int32_t pixel = 0, groups = args.groups;
    const auto multiply_pair = [&] {
      multiply_groups<kTile, 2>(args, stage, boxes_at, first_pixel, warp % 4, lane, pixel, columns,
                                sums);
      columns += 4 * kTile.columns();
      pixel += 2 * args.group_pixels;
      groups -= 2;
    };
    if constexpr (kEndsEarly) {
      if (--strips == 0) groups = args.last_groups, strips = args.strips.divisor;
#pragma unroll 1
      while (groups > 1) multiply_pair();
      if (groups == 1) {
        multiply_groups<kTile, 1>(args, stage, boxes_at, first_pixel, warp % 4, lane, pixel,
                                  columns, sums);
      }
    } else {
#pragma unroll 1
      do multiply_pair();
      while (groups > 0);
    }
    if (lane == 0) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.empty[buffer.stage]);
    }
    at.advance(args.stages);
    buffer.advance(kTransposed);
  } while (--patches > 0);
  wgmma_settle(sums);
}

template <class TileConstant, bool kEndsEarly>
__global__ void __launch_bounds__(TileConstant::kTile.threads(), 1)
    channels_last_tf32_wgrad_kernel(const __grid_constant__ CUtensorMap grad_output_map,
                                    const __grid_constant__ CUtensorMap input_map,
                                    const __grid_constant__ Arguments args) {
  constexpr Tile kTile = TileConstant::kTile;
  constexpr RegisterShares kRegisters(kTile);
  extern __shared__ unsigned char shared_base[];
  __shared__ Barriers barriers;
  static_assert(kMostSharedBytes + sizeof(barriers) <= kMaxShared);
  const Shared<kTile> shared(args, shared_base);
  const int32_t split = static_cast<int32_t>(blockIdx.x) / args.tiles;
  const int32_t tile_index = static_cast<int32_t>(blockIdx.x) - split * args.tiles;
  const TilePosition tile(args, kTile, tile_index);
  const int32_t first_patch = args.first_patch(split);
  const int32_t patches = args.first_patch(split + 1) - first_patch;
  if (threadIdx.x == 0) {
    prefetch_map(&grad_output_map);
    prefetch_map(&input_map);
    for (int i = 0; i < args.stages; ++i) cuda::ptx::mbarrier_init(&barriers.full[i], 1);
    for (int i = 0; i < kTransposed; ++i) {
      cuda::ptx::mbarrier_init(&barriers.transposed[i], 128);
      cuda::ptx::mbarrier_init(&barriers.empty[i], kTile.math_threads() / 32);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  if (static_cast<int32_t>(threadIdx.x) >= kTile.math_threads()) {
    release_registers<kRegisters.other>();
    transpose<kTile>(args, grad_output_map, input_map, shared, barriers, tile, split, first_patch,
                     patches);
    return;
  }
  take_registers<kRegisters.math>();
  Sums<kTile> sums = {};
  multiply<kTile, kEndsEarly>(args, shared, barriers, tile, first_patch, patches, sums);
  float4* to = reinterpret_cast<float4*>(args.partial) +
               (int64_t{split} * args.tiles + tile_index) * (kTile.values() / 4) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kTile.quads(); ++i) {
    const float* const four =
        &sums[i / 8 / kTile.instructions][i / 8 % kTile.instructions][i % 8 * 4];
    *to = make_float4(four[0], four[1], four[2], four[3]);
    to += kTile.math_threads();
  }
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
