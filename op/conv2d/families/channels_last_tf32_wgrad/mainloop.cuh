// The math warpgroups' products. Operands are loaded while others are multiplied.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/channels_last_tf32_wgrad/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

// The pixels of a group that a thread has, an even one and the next: all are grad_output's.
struct WholeGroups {
  // Of each two channels, as the matrix instruction takes them.
  __device__ __forceinline__ uint4 load(const unsigned char* even, const unsigned char* odd) const {
    const auto first = *reinterpret_cast<const uint2*>(even);
    const auto second = *reinterpret_cast<const uint2*>(odd);
    return make_uint4(first.x, first.y, second.x, second.y);
  }
};

// Or those of a group that a row ends in: zeros for pixels that grad_output has not.
struct EndOfRow {
  uint32_t even_mask, odd_mask;

  __device__ __forceinline__ EndOfRow(int32_t lane, int32_t pixels)
      : even_mask(lane % 4 * 2 < pixels ? ~0U : 0), odd_mask(lane % 4 * 2 + 1 < pixels ? ~0U : 0) {}

  __device__ __forceinline__ uint4 load(const unsigned char* even, const unsigned char* odd) const {
    const uint4 words = WholeGroups().load(even, odd);
    return make_uint4(words.x & even_mask, words.y & even_mask, words.z & odd_mask,
                      words.w & odd_mask);
  }
};

// A block's operand for a group whose first pixel is `pixel`. `warp`: of the warpgroup.
template <class Groups>
__device__ __forceinline__ uint4 load_rows(const Arguments& args, const unsigned char* boxes,
                                           int32_t warp, int32_t lane, int32_t pixel,
                                           const Groups& of) {
  const int32_t even = pixel + lane % 4 * 2;
  return of.load(boxes + input_bytes_at(args, warp, lane, even),
                 boxes + input_bytes_at(args, warp, lane, even + 1));
}

// What a math thread works on in a patch, and a warpgroup's blocks of rows.
template <Tile kTile>
struct Rows {
  const Arguments& args;
  int32_t warp, lane;  // the warp of the warpgroup
  int32_t first_pixel[kTile.blocks], boxes_at[kTile.blocks];

  __device__ __forceinline__ Rows(const Arguments& args, const TilePosition& tile)
      : args(args), warp(this_warp() % 4), lane(static_cast<int32_t>(threadIdx.x) % 32) {
#pragma unroll
    for (int i = 0; i < kTile.blocks; ++i) {
      RowBlock block(args, tile, this_warp() / 4 * kTile.blocks + i);
      // Blocks that do not exist compute the first one's, which nobody stores.
      if (!block.exists) block = RowBlock(args, tile, 0);
      first_pixel[i] = block.first_pixel(args, tile);
      boxes_at[i] =
          kTile.columns() / 32 * args.grad_output_bytes + block.chunk * 2 * args.input_bytes;
    }
  }

  template <class Groups, int kGroups>
  __device__ __forceinline__ void load(const unsigned char* stage, int32_t pixel, const Groups& of,
                                       uint4 (&words)[kGroups][kTile.blocks]) const {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int i = 0; i < kTile.blocks; ++i) {
        words[group][i] = load_rows(args, stage + boxes_at[i], warp, lane,
                                    first_pixel[i] + pixel + group * args.group_pixels, of);
      }
    }
  }
};

// Begins the products of some groups of one block of four.
template <Tile kTile, int kGroups>
__device__ __forceinline__ void multiply_words(const uint4 (&words)[kGroups][kTile.blocks],
                                               uint32_t columns, Sums<kTile>& sums) {
  wgmma_fence();
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < kTile.blocks; ++i) {
#pragma unroll
      for (int j = 0; j < kTile.instructions; ++j) {
        const uint32_t at =
            columns + transposed_units(kTile.columns(), group) + j * kInstructionColumns * 8;
        wgmma<float, kInstructionColumns>(sums[i][j], words[group][i],
                                          operand(at, transposed_layout()), true);
      }
    }
  }
  wgmma_commit();
}

// By groups.
template <Tile kTile, class Groups>
__device__ __forceinline__ void multiply_groups(const Rows<kTile>& rows, const unsigned char* stage,
                                                uint32_t columns, int32_t groups, const Groups& of,
                                                Sums<kTile>& sums) {
  // Three blocks leave no registers for the next operands.
  constexpr int kTogether = kTile.blocks > 2 ? 2 : kBlockGroups;
  const int32_t group_pixels = rows.args.group_pixels;
  int32_t pixel = 0, group = 0;
#pragma unroll 1
  for (; group + kTogether <= groups; group += kTogether) {
    const uint32_t at = columns + transposed_units(kTile.columns(), group);
    uint4 first[2][kTile.blocks];
    rows.load(stage, pixel, of, first);
    multiply_words<kTile>(first, at, sums);
    if constexpr (kTogether > 2) {
      uint4 second[2][kTile.blocks];
      rows.load(stage, pixel + 2 * group_pixels, of, second);
      multiply_words<kTile>(second, at + transposed_units(kTile.columns(), 2), sums);
    }
    wgmma_wait<0>();
    pixel += kTogether * group_pixels;
  }
  const auto multiply_rest = [&]<int kGroups>() {
    uint4 words[kGroups][kTile.blocks];
    rows.load(stage, pixel, of, words);
    multiply_words<kTile>(words, columns + transposed_units(kTile.columns(), group), sums);
    wgmma_wait<0>();
    pixel += kGroups * group_pixels;
    group += kGroups;
  };
  if (kTogether > 2 && group + 2 <= groups) multiply_rest.template operator()<2>();
  if (group < groups) multiply_rest.template operator()<1>();
}

// By what all three taps of a warpgroup read: the groups of an input's column, or two rows of four
// groups.
template <Walk kWalk>
struct Line {
  static constexpr bool kIsColumn = kWalk == Walk::kRows;
  static constexpr int kLong = kIsColumn ? 10 : 2 * 4, kGroups = kIsColumn ? 8 : 4;
  static constexpr int kPixels = kIsColumn ? 10 : 8;  // of the box, to the next group
  // Groups whose operands are loaded together; of the first ones few, so that products begin soon.
  static constexpr int kTogether = 3, kFirst = 2;
  // Groups after which the swizzle of a pixel's bytes repeats.
  static constexpr int kPhases = kPixels % 8 == 0 ? 1 : 4;
  static_assert(kPhases * kPixels % 8 == 0);

  // The group of the patch that the tap `tap` of three meets there, or -1.
  HALOCONV_HOST_DEVICE static constexpr int group_at(int at, int tap) {
    const int in_row = kIsColumn ? at : at % 4, groups = kIsColumn ? 8 : 2;
    const int group = in_row - tap;
    return group < 0 || group >= groups ? -1 : kIsColumn ? group : at / 4 * 2 + group;
  }

  // Bytes of the first groups' even and odd pixel in a stage.
  int32_t even[kPhases], odd[kPhases];

  template <Tile kTile>
  __device__ __forceinline__ explicit Line(const Rows<kTile>& rows) {
#pragma unroll
    for (int i = 0; i < kPhases; ++i) {
      const int32_t pixel = rows.first_pixel[0] + i * kPixels + rows.lane % 4 * 2;
      even[i] = rows.boxes_at[0] + input_bytes_at(rows.args, rows.warp, rows.lane, pixel);
      odd[i] = rows.boxes_at[0] + input_bytes_at(rows.args, rows.warp, rows.lane, pixel + 1);
    }
  }

  template <int kAt, int kCount, class Groups>
  __device__ __forceinline__ void load(const unsigned char* stage, const Groups& of,
                                       uint4 (&words)[kTogether]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      constexpr int kPhaseBytes = kPhases * kPixels * kPixelBytes;
      const int phase = (kAt + i) % kPhases;
      const unsigned char* const from = stage + (kAt + i) / kPhases * kPhaseBytes;
      words[i] = of.load(from + even[phase], from + odd[phase]);
    }
  }
};

// Of the groups before `groups`.
template <Tile kTile, Walk kWalk, int kAt, int kCount>
__device__ __forceinline__ void multiply_line(const uint4 (&words)[Line<kWalk>::kTogether],
                                              uint32_t columns, int32_t groups, Sums<kTile>& sums) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int tap = 0; tap < 3; ++tap) {
      const int group = Line<kWalk>::group_at(kAt + i, tap);
      if (group < 0 || group >= groups) continue;
      wgmma<float, kInstructionColumns>(
          sums[tap][0], words[i],
          operand(columns + transposed_units(kTile.columns(), group), transposed_layout()), true);
    }
  }
  wgmma_commit();
}

// A patch from the line's group kAt on, of which `words` has kCount. Two sets of operands are in
// use: when one's products have begun, the other's have ended, and it is loaded anew.
template <Tile kTile, Walk kWalk, int kAt, int kCount, class Groups>
__device__ __forceinline__ void multiply_lines(const Line<kWalk>& line, const unsigned char* stage,
                                               uint32_t columns, int32_t groups, const Groups& of,
                                               uint4 (&words)[Line<kWalk>::kTogether],
                                               uint4 (&others)[Line<kWalk>::kTogether],
                                               Sums<kTile>& sums) {
  using Along = Line<kWalk>;
  constexpr int kNext = kAt + kCount;
  multiply_line<kTile, kWalk, kAt, kCount>(words, columns, groups, sums);
  if constexpr (kNext < Along::kLong) {
    constexpr int kLeft = Along::kLong - kNext;
    constexpr int kNextCount = kLeft < Along::kTogether ? kLeft : Along::kTogether;
    if constexpr (kAt > 0) wgmma_wait<1>();
    line.template load<kNext, kNextCount>(stage, of, others);
    multiply_lines<kTile, kWalk, kNext, kNextCount>(line, stage, columns, groups, of, others, words,
                                                    sums);
  } else {
    wgmma_wait<0>();
  }
}

// Multiplies a split's patches.
template <Tile kTile, Walk kWalk>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<kTile>& shared,
                                         Barriers& barriers, const TilePosition& tile,
                                         int32_t first_patch, int32_t patches, Sums<kTile>& sums) {
  const Rows<kTile> rows(args, tile);
  RingPosition at, buffer;
  PatchPlace place(args, first_patch);
  const auto multiply_patches = [&](const auto& multiply_patch) {
#pragma unroll 1
    do {
      mbarrier_wait(&barriers.full[at.stage], at.parity);
      multiply_patch(shared.stages + at.stage * shared.stage_bytes,
                     operand_start(shared.transposed + buffer.stage * shared.transposed_bytes,
                                   transposed_layout()));
      if (rows.lane == 0) {
        cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                   cuda::ptx::space_shared, &barriers.empty[buffer.stage]);
      }
      at.advance(args.stages);
      buffer.advance(kTransposed);
      place.advance(args);
    } while (--patches > 0);
  };
  const auto wait_for_transposed = [&] {
    mbarrier_wait(&barriers.transposed[buffer.stage], buffer.parity);
  };
  if constexpr (kWalk == Walk::kGroups) {
    multiply_patches([&](const unsigned char* stage, uint32_t columns) {
      const int32_t groups = args.groups_of(place), pixels = args.pixels_of(place);
      wait_for_transposed();
      if (pixels == 8) {
        multiply_groups<kTile>(rows, stage, columns, groups, WholeGroups(), sums);
      } else {
        multiply_groups<kTile>(rows, stage, columns, groups, EndOfRow(rows.lane, pixels), sums);
      }
    });
  } else {
    using Along = Line<kWalk>;
    const Along line(rows);
    multiply_patches([&](const unsigned char* stage, uint32_t columns) {
      const auto multiply_groups = [&](int32_t groups, const auto& of) {
        uint4 words[Along::kTogether], others[Along::kTogether];
        line.template load<0, Along::kFirst>(stage, of, words);
        wait_for_transposed();
        multiply_lines<kTile, kWalk, 0, Along::kFirst>(line, stage, columns, groups, of, words,
                                                       others, sums);
      };
      const int32_t groups = args.groups_of(place), pixels = args.pixels_of(place);
      if (!Along::kIsColumn || (groups == Along::kGroups && pixels == 8)) {
        multiply_groups(Along::kGroups, WholeGroups());
      } else {
        multiply_groups(groups, EndOfRow(rows.lane, pixels));
      }
    });
  }
  wgmma_settle(sums);
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
