// Hands a line's results of a math warp's 16 channels to the copy engine, a box for each place of a
// sector at which planes begin: copied_lines.h. The engine writes them while the next tile is
// multiplied.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/copied_arguments.h"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "conv2d/families/halo/taps_3x3_mainloop.cuh"
#include "cuda/store_box.cuh"

namespace haloconv::halo {

template <class T>
class CopiedLines : Results<T, kLinePixels> {
  static_assert(kLineInstructions * kLineWidth == kLinePixels && sizeof(T) == 2);
  static constexpr int kBlocks = kLinePixels / 8;        // of 8 pixels, a pair in each lane of four
  static constexpr int kOfInstruction = kLineWidth / 8;  // the same of an instruction
  static constexpr int kEndBlocks = kSectorPixels / 8;

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
        boxes_(shared_address(shared.staging()) +
               (group_ * 4 + warp_) * (kCopiedChannels * kInsideBytes)) {}

  // Calls after_sums() when it needs neither sums nor terms any longer.
  template <class Body>
  __device__ __forceinline__ void run(const LineSums& sums, const RowTerms<T, false>& terms,
                                      const TilePosition& tile, Body after_sums) const {
    const FoldedRows::Row at = first_row(tile, 0);
    const bool exists = has(tile, at, first_output(tile)) && at.channel < args_.rows;
    T* const line = first_of(static_cast<T*>(args_.destination), tile, at);
    wait_until_read();
    if (exists) stage(sums, terms, line);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (exists && lane_ == 0) copy(tile, at.channel, line);
    after_sums();
  }

  // Until the engine has read all boxes of this warp.
  __device__ __forceinline__ void wait_until_read() const {
    if (lane_ == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    __syncwarp();
  }

 private:
  // The lane's pixels of both its channels: the inside goes to shared memory, ends to where they
  // belong. Of two blocks of 8 pixels that are as far apart as a line has pixels inside, one pair
  // is an end and the other is inside.
  __device__ __forceinline__ void stage(const LineSums& sums, const RowTerms<T, false>& terms,
                                        T* line) const {
    const int32_t pair = lane_ % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t channel = half * 8 + lane_ / 4;
      T* const at = line + channel * args_.destination_c + pair;
      const int32_t to_sector = to_sector_of(at - pair);
      const uint32_t staged =
          boxes_ + copied_.places.row_of(channel) * kInsideBytes + (pair - to_sector) * 2;
      const auto pair_of = [&](int block, float (&values)[2]) {
        const auto& of = sums[block / kOfInstruction];
        const int i = block % kOfInstruction * 4 + half * 2;
        values[0] = terms.apply(of[i], half);
        values[1] = terms.apply(of[i + 1], half);
      };
#pragma unroll
      for (int block = 0; block < kEndBlocks; ++block) {
        float first[2], last[2];
        pair_of(block, first);
        pair_of(kBlocks - kEndBlocks + block, last);
        const bool is_end = first_is_end(block * 8 + pair, to_sector);
        const int32_t end = block * 8 + (is_end ? 0 : kInsidePixels);
        const int32_t inside = block * 8 + (is_end ? kInsidePixels : 0);
        float to_end[2], to_inside[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          to_end[i] = is_end ? first[i] : last[i];
          to_inside[i] = is_end ? last[i] : first[i];
        }
        Element<T>::store(at + end, to_end, true);
        store_pair(staged + inside * 2, to_inside);
      }
#pragma unroll
      for (int block = kEndBlocks; block < kBlocks - kEndBlocks; ++block) {
        float values[2];
        pair_of(block, values);
        store_pair(staged + block * 16, values);
      }
    }
  }

  static __device__ __forceinline__ void store_pair(uint32_t at, const float (&values)[2]) {
    store_shared_bits(at, Element<T>::pair(values[0], values[1]));
  }

  static __device__ __forceinline__ int32_t to_sector_of(const T* at) {
    return pixels_to_sector(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at)));
  }

  // One lane: the boxes, in which a channel's first pixel is the first of a whole sector.
  __device__ __forceinline__ void copy(const TilePosition& tile, int32_t channel,
                                       const T* line) const {
    const typename Base::Output first = first_output(tile);
    const int32_t pixel = first.p * args_.destination_h + first.q;
    const int32_t box_bytes = copied_.places.channels_of_box() * kInsideBytes;
#pragma unroll
    for (int32_t place = 0; place < kMaxPlaces; ++place) {
      if (place >= copied_.places.count()) break;
      const int32_t c0 =
          pixel + to_sector_of(line + place * args_.destination_c) + copied_.before[place];
      store_box(boxes_ + place * box_bytes, &copied_.maps[place], c0,
                channel >> copied_.places.shift, tile.image);
    }
    cuda::ptx::cp_async_bulk_commit_group();
  }

  const CopiedArguments& copied_;
  const uint32_t boxes_;  // of this warp
};

}  // namespace haloconv::halo
