// Hands a line's results of a math warp's 16 channels to the copy engine, a box for each place of a
// sector at which planes begin: copied_lines.h. The engine writes them while the next tile is
// multiplied.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/copied_arguments.h"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "conv2d/families/halo/taps_3x3_mainloop.cuh"
#include "conv2d/families/halo/whole_tile.cuh"
#include "cuda/store_box.cuh"

namespace haloconv::halo {

// A line among those that a warp computes one after the other.
struct LineRun {
  bool is_continued;  // this line continues the one before it, whose carry the warp has kept
  bool continues;     // the next line continues this one
};

template <class T>
class CopiedLines : Results<T, kLinePixels> {
  static_assert(FlatShape<sizeof(T)>::kPixels == kLinePixels);
  static constexpr int kBlocks = kLinePixels / 8;  // of 8 pixels, a pair in each lane of four
  static constexpr int kOfInstruction =
      FlatShape<sizeof(T)>::kWidth / 8;  // the same of an instruction
  static constexpr int kSectorBlocks = kSectorPixels / 8;

  using Base = Results<T, kLinePixels>;
  using Base::args_;
  using Base::first_of;
  using Base::first_output;
  using Base::first_row;
  using Base::group_;
  using Base::has;
  using Base::lane_;
  using Base::warp_;

 public:
  __device__ __forceinline__ CopiedLines(const Arguments& args, const CopiedArguments& copied,
                                         const SharedMemory& shared)
      : Base(args, shared),
        copied_(copied),
        boxes_(shared_address(shared.staging()) + (group_ * 4 + warp_) * kStagedWarpBytes) {}

  __device__ __forceinline__ void run(const LineSums<T>& sums, const RowTerms<T, false>& terms,
                                      const WholeTile& tile, const LineRun& of_run) const {
    const FoldedRows::Row at = first_row(tile, 0);
    const bool exists = has(tile, at, first_output(tile)) && at.channel < args_.rows;
    T* const line = first_of(static_cast<T*>(args_.destination), tile, at);
    wait_until_read();
    if (exists) stage(sums, terms, line, tile.overlap, of_run);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (exists && lane_ == 0) copy(tile, at.channel, line, of_run);
  }

  // Until the engine has read all boxes of this warp.
  __device__ __forceinline__ void wait_until_read() const {
    if (lane_ == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    __syncwarp();
  }

 private:
  // The lane's pixels of both its channels.
  __device__ __forceinline__ void stage(const LineSums<T>& sums, const RowTerms<T, false>& terms,
                                        T* line, int32_t overlap, const LineRun& of_run) const {
    const int32_t pair = lane_ % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t channel = half * 8 + lane_ / 4;
      T* const at = line + channel * args_.destination_c + pair;
      const int32_t in_sector = in_sector_of(at - pair);
      const StagedLine staged = stage_line(in_sector, of_run.is_continued, overlap);
      const uint32_t row = boxes_ + copied_.places.row_of(channel) * kStagedLineBytes;
      const uint32_t first = row + (staged.first + pair) * 2;
      // Words of the half's carry, each of all lanes.
      const uint32_t carry =
          boxes_ + kCopiedChannels * kStagedLineBytes + (half * kSectorBlocks * 32 + lane_) * 4;
      const auto word_of = [&](int block) {
        const auto& of = sums[block / kOfInstruction];
        const int i = block % kOfInstruction * 4 + half * 2;
        return Element<T>::pair(terms.apply(of[i], half), terms.apply(of[i + 1], half));
      };
      if (of_run.is_continued) {
#pragma unroll
        for (int block = 0; block < kSectorBlocks; ++block) {
          uint32_t word;
          load_shared_bits(carry + block * 128, word);
          const int32_t to = staged_of_carry(block * 8 + pair, in_sector, overlap);
          if (staged.first >= 0 && to >= 0 && to < in_sector) store_shared_bits(row + to * 2, word);
        }
      }
#pragma unroll
      for (int block = 0; block < kSectorBlocks; ++block) {
        const uint32_t word = word_of(block);
        const bool is_staged = staged.first + block * 8 + pair >= 0;
        if (is_staged) store_shared_bits(first + block * 16, word);
        if (!of_run.is_continued) store_global_bits(at + block * 8, word, !is_staged);
      }
#pragma unroll
      for (int block = kSectorBlocks; block < kBlocks - kSectorBlocks; ++block) {
        store_shared_bits(first + block * 16, word_of(block));
      }
#pragma unroll
      for (int i = 0; i < kSectorBlocks; ++i) {
        const int block = kBlocks - kSectorBlocks + i;
        const uint32_t word = word_of(block);
        store_shared_bits(first + block * 16, word);
        if (of_run.continues) {
          store_shared_bits(carry + i * 128, word);
        } else {
          store_global_bits(at + block * 8, word, i * 8 + pair >= first_of_carry(in_sector));
        }
      }
    }
  }

  static __device__ __forceinline__ int32_t in_sector_of(const T* at) {
    return pixel_in_sector(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at)));
  }

  // One lane: the boxes. A box's line that has a sector less begins at the map's line of a sector
  // before, and so ends where that one does.
  __device__ __forceinline__ void copy(const WholeTile& tile, int32_t channel, const T* line,
                                       const LineRun& of_run) const {
    const typename Base::Output first = first_output(tile);
    const int32_t pixel = first.p * args_.destination_h + first.q;
    const int32_t box_bytes = copied_.places.channels_of_box() * kStagedLineBytes;
#pragma unroll
    for (int32_t place = 0; place < kMaxPlaces; ++place) {
      if (place >= copied_.places.count()) break;
      const StagedLine staged = stage_line(in_sector_of(line + place * args_.destination_c),
                                           of_run.is_continued, tile.overlap);
      const int32_t missing = kLineSectors - staged.sectors;
      const int32_t sector = (pixel + copied_.before[place] - staged.first) / kSectorPixels;
      store_streamed_box(boxes_ + place * box_bytes, &copied_.maps[place],
                         missing * (kSectorPixels / 2), sector - missing,
                         channel >> copied_.places.shift, tile.image);
    }
    cuda::ptx::cp_async_bulk_commit_group();
  }

  const CopiedArguments& copied_;
  const uint32_t boxes_;  // of this warp
};

}  // namespace haloconv::halo
