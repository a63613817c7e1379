// fprop and dgrad of groups with one channel, channels innermost: patches.h. A block brings its
// window and filters to shared memory, then each thread goes down the window's rows: a row meets
// each row of the patch by one row of the filter.
#pragma once

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/bring_words.cuh"
#include "conv2d/families/depthwise/channel_pair.cuh"
#include "conv2d/families/depthwise/patches.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

template <class T>
struct PatchesArguments {
  const T* source;
  const T* filter;
  const T* bias;  // one value per channel, or null
  T* destination;
  Patches shape;
  Strides source_at, destination_at;
  int64_t filter_group;  // from a channel to the next
  bool by_16_bytes;      // the source may be read so
  bool by_pairs;         // two channels of the destination may be written at once
  Fusion fusion;
};

// A block's first channel, and of its rectangle the first output; outputs count from the shift.
struct Rectangle2d {
  int32_t channel, image, h, w;

  template <int kColumns>
  static __device__ __forceinline__ Rectangle2d of(const Patches& d, int32_t block) {
    const int32_t tile = d.channel_tiles.quotient(block);
    const int32_t row = d.tiles_w.quotient(tile), image = d.tiles_h.quotient(row);
    return {(block - tile * d.channel_tiles.divisor) * 2 * d.lanes, image,
            (row - image * d.h.tiles) * d.h.threads * kPatchRows,
            (tile - row * d.w.tiles) * d.w.threads * kColumns};
  }
};

// (row, column, channel); zero beside the source.
template <class T, class Word>
__device__ __forceinline__ void bring_window(const PatchesArguments<T>& args, const Rectangle2d& at,
                                             T* shared) {
  const Patches& d = args.shape;
  constexpr int kElements = sizeof(Word) / sizeof(T);
  constexpr int kWords = kPixelBytes / sizeof(Word);  // of a pixel
  const int32_t h = (at.h * d.h.step >> (d.h.upsampling - 1)) + d.h.origin;
  const int32_t w = (at.w * d.w.step >> (d.w.upsampling - 1)) + d.w.origin;
  const T* const from = args.source + at.image * args.source_at.n + h * args.source_at.h +
                        w * args.source_at.w + at.channel;
  const int32_t channels = d.channels.divisor - at.channel;
  const int32_t words = d.h.window * d.w.window * kWords;
  bring_words<2, 8>(reinterpret_cast<Word*>(shared), words, [&](int32_t i) {
    const int32_t pixel = i / kWords, channel = i % kWords * kElements;
    const int32_t row = d.window_w.quotient(pixel), column = pixel - row * d.w.window;
    const bool inside =
        static_cast<uint32_t>(h + row) < static_cast<uint32_t>(d.h.source_size) &&
        static_cast<uint32_t>(w + column) < static_cast<uint32_t>(d.w.source_size) &&
        channel < channels;
    return WordPlace{from + row * args.source_at.h + column * args.source_at.w + channel, inside};
  });
}

// (tap, channel)
template <int kTaps, class T>
__device__ __forceinline__ void bring_patch_filters(const PatchesArguments<T>& args,
                                                    int32_t first_channel, float* shared) {
  const Patches& d = args.shape;
  constexpr int kWeights = kTaps * kTaps, kChannels = kPixelBytes / sizeof(T);
  const T* const from = args.filter + first_channel * args.filter_group + d.filter_first;
  const int32_t exist = d.channels.divisor - first_channel;
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kChannels * kWeights;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t channel = i / kWeights, tap = i % kWeights;  // a channel's lie side by side
    const int64_t offset =
        channel * args.filter_group + tap / kTaps * d.h.filter_step + tap % kTaps * d.w.filter_step;
    shared[tap * kChannels + channel] = channel < exist ? load(from + offset) : 0;
  }
}

template <class T, int kTaps, int kStep, int kUp, bool kFused>
__global__ void __launch_bounds__(kPatchThreads, 2)
    depthwise_patches_kernel(const __grid_constant__ PatchesArguments<T> args) {
  constexpr int kColumns = patch_columns(kStep, kUp), kRows = kPatchRows;
  constexpr int kChannels = kPixelBytes / sizeof(T), kLanes = kChannels / 2;
  constexpr int kSourceRows = ((kRows - 1) * kStep + kTaps - 1) / kUp + 1;
  constexpr int kSourceColumns = ((kColumns - 1) * kStep + kTaps - 1) / kUp + 1;
  const Patches& d = args.shape;
  extern __shared__ __align__(16) unsigned char depthwise_patches_shared[];
  T* const window = reinterpret_cast<T*>(depthwise_patches_shared);
  float* const filters =
      reinterpret_cast<float*>(depthwise_patches_shared + d.h.window * d.w.window * kPixelBytes);
  const auto at = Rectangle2d::of<kColumns>(d, static_cast<int32_t>(blockIdx.x));
  if (args.by_16_bytes) {
    bring_window<T, uint4>(args, at, window);
  } else {
    bring_window<T, BitsOf<T>>(args, at, window);
  }
  commit_copies();
  bring_patch_filters<kTaps>(args, at.channel, filters);
  wait_for_all_but<0>();
  __syncthreads();

  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int32_t patch = static_cast<int32_t>(threadIdx.x) / kLanes;
  const int32_t patch_h = d.patches_w.quotient(patch), patch_w = patch - patch_h * d.w.threads;
  const T* pixels =
      window +
      (patch_h * (kRows * kStep / kUp) * d.w.window + patch_w * (kColumns * kStep / kUp)) *
          kChannels +
      lane * 2;
  const float2* const own_filters = reinterpret_cast<const float2*>(filters) + lane;
  float2 sums[kRows * kColumns] = {};
#pragma unroll 1
  for (int32_t i = 0; i < kSourceRows; ++i) {
    float2 row[kSourceColumns];
#pragma unroll
    for (int j = 0; j < kSourceColumns; ++j) {
      row[j] = load_pair(pixels + j * kChannels);
      // Else each of the patch's rows unpacks them again.
      asm volatile("" : "+f"(row[j].x), "+f"(row[j].y));
    }
    pixels += d.w.window * kChannels;
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
      const int32_t tap = i * kUp - a * kStep;
      if (tap < 0 || tap >= kTaps) continue;
      float2 weights[kTaps];
#pragma unroll
      for (int s = 0; s < kTaps; ++s) weights[s] = own_filters[(tap * kTaps + s) * kLanes];
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
#pragma unroll
        for (int x = 0; x < kColumns; ++x) {
          if ((x * kStep + s) % kUp != 0) continue;
          const float2 pixel = row[(x * kStep + s) / kUp];
          float2& sum = sums[a * kColumns + x];
          sum.x += weights[s].x * pixel.x;
          sum.y += weights[s].y * pixel.y;
        }
      }
    }
  }

  const int32_t h = at.h - d.shift_h + patch_h * kRows;
  const int32_t w = at.w - d.shift_w + patch_w * kColumns;
  const int32_t channel = at.channel + lane * 2;
  const int32_t channels = min(d.channels.divisor - channel, 2);
  if (channels <= 0) return;
  const int64_t offset = at.image * args.destination_at.n + h * args.destination_at.h +
                         w * args.destination_at.w + channel;
  const int32_t height = d.h.outputs - d.shift_h, width = d.w.outputs - d.shift_w;
  const auto place_of = [&](int32_t i) {
    const int32_t row = i / kColumns, column = i % kColumns;
    const bool exists = static_cast<uint32_t>(h + row) < static_cast<uint32_t>(height) &&
                        static_cast<uint32_t>(w + column) < static_cast<uint32_t>(width);
    return PairPlace{exists, offset + row * args.destination_at.h + column * args.destination_at.w};
  };
  write_pairs<kFused>(args, channel, channels, sums, place_of);
}

}  // namespace haloconv::depthwise
