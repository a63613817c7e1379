// Hands a flat tile's results of a math warp's 16 channels to the copy engine, a box for each place
// of a sector at which planes begin: flat_lines.h. The engine writes them while the next tile is
// multiplied.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/flat_arguments.h"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/taps_3x3_mainloop.cuh"
#include "cuda/store_box.cuh"

namespace haloconv::halo {

// A plane's last tile begins where it ends with the plane.
template <class T>
struct FlatTile : TilePosition {
  __device__ __forceinline__ FlatTile(const Arguments& args, uint32_t index)
      : TilePosition(args, index) {
    w = min(w, last(args));
  }

  static __device__ __forceinline__ int32_t last(const Arguments& args) {
    return args.w.outputs - FlatShape<sizeof(T)>::kPixels;
  }
};

// The bias of the thread's channel in each half of its warp's 16, the same for all tiles.
template <class T>
class FlatBias {
 public:
  __device__ __forceinline__ FlatBias(const Arguments& args, const RowOrder& order, int32_t group,
                                      int32_t thread) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t channel =
          group * kRowsOfGroup + thread / 32 * 16 + order.channel(thread % 32, half);
      values_[half] = Element<T>::load(static_cast<const T*>(args.bias) + channel,
                                       args.bias != nullptr && channel < args.rows);
    }
  }

  __device__ __forceinline__ float add(float sum, int half) const { return sum + values_[half]; }

 private:
  float values_[2];
};

// Two neighbouring pixels of a channel.
template <class T>
struct PixelPair {
  __device__ __forceinline__ PixelPair(float first, float second)
      : word(Element<T>::pair(first, second)) {}

  __device__ __forceinline__ void stage(uint32_t at) const { store_shared_bits(at, word); }
  __device__ __forceinline__ void stage_if(bool wanted, uint32_t at) const {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %2, 0;\n"
        "@wanted st.shared.b32 [%0], %1;\n"
        "}\n" ::"r"(at),
        "r"(word), "r"(static_cast<int32_t>(wanted))
        : "memory");
  }
  __device__ __forceinline__ void store(T* at, bool inside) const {
    store_global_bits(at, word, inside);
  }

  uint32_t word;
};
template <>
struct PixelPair<float> {
  __device__ __forceinline__ PixelPair(float first, float second) : values{first, second} {}

  __device__ __forceinline__ void stage(uint32_t at) const { store_shared(at, values); }
  __device__ __forceinline__ void stage_if(bool wanted, uint32_t at) const {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %3, 0;\n"
        "@wanted st.shared.v2.f32 [%0], {%1, %2};\n"
        "}\n" ::"r"(at),
        "f"(values[0]), "f"(values[1]), "r"(static_cast<int32_t>(wanted))
        : "memory");
  }
  __device__ __forceinline__ void store(float* at, bool inside) const {
    store_global(at, values, inside);
  }

  float values[2];
};

template <class T>
class FlatLines : Results<T, FlatShape<sizeof(T)>::kPixels> {
  using Shape = FlatShape<sizeof(T)>;
  static constexpr int kBytes = sizeof(T);
  static constexpr int kBlocks = Shape::kPixels / 8;  // of 8 pixels, a pair in each lane of four
  static constexpr int kOfInstruction = Shape::kWidth / 8;  // the same of an instruction
  static constexpr int kSectorBlocks = Shape::kSector / 8;

  using Base = Results<T, Shape::kPixels>;
  using Base::args_;
  using Base::first_row;
  using Base::group_;
  using Base::lane_;
  using Base::warp_;

 public:
  __device__ __forceinline__ FlatLines(const Arguments& args, const FlatArguments& flat,
                                       const SharedMemory& shared)
      : Base(args, shared),
        flat_(flat),
        boxes_(shared_address(shared.staging()) + kBoxAlignment +
               (group_ * 4 + warp_) * Shape::kWarpBytes) {}

  __device__ __forceinline__ void run(const LineSums<T>& sums, const FlatBias<T>& bias,
                                      const FlatTile<T>& tile) const {
    const int32_t channel = first_row(tile, 0).channel;
    const bool exists = channel < args_.rows;
    const FlatPixels pixels =
        flat_pixels(tile.w, flat_.positions_div.quotient(tile.w), flat_.row_outputs);
    T* const first = static_cast<T*>(args_.destination) + tile.image * args_.destination_n +
                     channel * args_.destination_c + pixels.first;
    wait_until_read();
    if (exists) {
      if (pixels.before_gap < Shape::kPixels) {
        stage<true>(sums, bias, first, pixels);
      } else {
        stage<false>(sums, bias, first, pixels);
      }
      if (tile.w == 0) write_head(sums, bias, first);
      if (tile.w == FlatTile<T>::last(args_)) write_tail(sums, bias, first);
    }
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (exists && lane_ == 0) copy(tile, channel, first, pixels.first);
  }

  // Until the engine has read all boxes of this warp.
  __device__ __forceinline__ void wait_until_read() const {
    if (lane_ == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    __syncwarp();
  }

 private:
  // The lane's pixels of both its channels.
  template <bool kHasGap>
  __device__ __forceinline__ void stage(const LineSums<T>& sums, const FlatBias<T>& bias,
                                        const T* first, const FlatPixels& pixels) const {
    const int32_t pair = lane_ % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t channel = flat_.rows.channel(lane_, half);
      int32_t before_gap = pixels.before_gap - pair;  // from the lane's first pair
      const uint32_t staged =
          boxes_ + flat_.places.row_of(channel) * Shape::kStagedBytes +
          (pair - before_sector(first + channel * args_.destination_c)) * kBytes;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const uint32_t at = staged + block * 8 * kBytes;
        const PixelPair<T> of = pair_of(sums, bias, block, half);
        if constexpr (kHasGap) {
          // One block's comparisons after the other's: keeping all of them live would spill.
          asm volatile("" : "+r"(before_gap));
          const int32_t back = block * 8 > before_gap ? kFlatGap * kBytes : 0;
          of.stage_if(block * 8 != before_gap, at - back);
        } else {
          of.stage(at);
        }
      }
    }
  }

  // What lies before the plane's first whole sector, and after its last.
  __device__ __forceinline__ void write_head(const LineSums<T>& sums, const FlatBias<T>& bias,
                                             T* first) const {
    write<0>(sums, bias, first, [](int32_t from_sector) { return from_sector < 0; });
  }
  __device__ __forceinline__ void write_tail(const LineSums<T>& sums, const FlatBias<T>& bias,
                                             T* first) const {
    write<kBlocks - kSectorBlocks>(
        sums, bias, first, [](int32_t from_sector) { return from_sector >= Shape::kColumns; });
  }

  // Of a sector's worth of pixels those that `is_wanted`, by their distance from the first whole
  // sector.
  template <int kFirstBlock, class IsWanted>
  __device__ __forceinline__ void write(const LineSums<T>& sums, const FlatBias<T>& bias, T* first,
                                        IsWanted is_wanted) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      T* const line = first + flat_.rows.channel(lane_, half) * args_.destination_c;
      const int32_t before = before_sector(line);
#pragma unroll
      for (int i = 0; i < kSectorBlocks; ++i) {
        const int32_t pixel = (kFirstBlock + i) * 8 + lane_ % 4 * 2;
        pair_of(sums, bias, kFirstBlock + i, half).store(line + pixel, is_wanted(pixel - before));
      }
    }
  }

  static __device__ __forceinline__ PixelPair<T> pair_of(const LineSums<T>& sums,
                                                         const FlatBias<T>& bias, int block,
                                                         int half) {
    const auto& of = sums[block / kOfInstruction];
    const int i = block % kOfInstruction * 4 + half * 2;
    return PixelPair<T>(bias.add(of[i], half), bias.add(of[i + 1], half));
  }

  static __device__ __forceinline__ int32_t before_sector(const T* at) {
    return Shape::before_sector(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at)));
  }

  // One lane: the boxes.
  __device__ __forceinline__ void copy(const FlatTile<T>& tile, int32_t channel, const T* first,
                                       int32_t pixel) const {
    const int32_t box_bytes = flat_.places.channels_of_box() * Shape::kStagedBytes;
#pragma unroll
    for (int32_t place = 0; place < Shape::kMostPlaces; ++place) {
      if (place >= flat_.places.count()) break;
      const int32_t begins =
          pixel + flat_.before[place] + before_sector(first + place * args_.destination_c);
      store_streamed_box(boxes_ + place * box_bytes, &flat_.maps[place], 0, begins / Shape::kSector,
                         channel >> flat_.places.shift, tile.image);
    }
    cuda::ptx::cp_async_bulk_commit_group();
  }

  const FlatArguments& flat_;
  const uint32_t boxes_;  // of this warp
};

}  // namespace haloconv::halo
