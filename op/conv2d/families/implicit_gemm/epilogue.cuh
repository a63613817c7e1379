// From the sums to the destination, by way of shared memory: a matrix instruction leaves a thread
// two neighbouring channels, of which 16 bytes are written at a time.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/device/fuse.cuh"
#include "conv2d/families/implicit_gemm/mainloop.cuh"

namespace haloconv::implicit_gemm {

// What a tile's results need, in the shared memory that the stages had.
template <int kIndex>
struct ResultMemory {
  static constexpr Tile kTile = kTiles[kIndex];
  int64_t* places;              // (pixels): elements to channel 0 of the group, or kNowhere
  float *bias, *scale, *shift;  // (channels)
  float* slices;                // (warp, slice_floats)

  __device__ __forceinline__ explicit ResultMemory(unsigned char* shared)
      : places(reinterpret_cast<int64_t*>(shared)),
        bias(reinterpret_cast<float*>(places + kTile.pixels)),
        scale(bias + kTile.channels),
        shift(scale + kTile.channels),
        slices(shift + kTile.channels) {}

  // By all threads; a barrier must follow. What is left out counts as a number that changes
  // nothing: not even the sign of a zero.
  template <class T, class Position>
  __device__ __forceinline__ void fill(const Arguments& args, const Position& at) const {
    const Gather& g = args.geometry;
    for (int i = threadIdx.x; i < kTile.pixels; i += kTile.threads()) {
      places[i] = at.destination(args, i);
    }
    for (int i = threadIdx.x; i < kTile.channels; i += kTile.threads()) {
      const bool exists = at.channel + i < g.rows;
      const int64_t channel = int64_t{at.group} * g.rows + at.channel + i;
      const auto number = [&](const void* of, float otherwise) {
        return load_or<T>(exists ? of : nullptr, channel, otherwise);
      };
      bias[i] = number(args.bias, -0.0f);
      scale[i] = number(args.fusion.scale, 1);
      shift[i] = number(args.fusion.shift, -0.0f);
    }
  }
};

template <int kCount>
__device__ __forceinline__ void load_floats(const float* from, float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
  }
}

// 16 bytes of memory as numbers, and back.
template <class T, int kCount>
__device__ __forceinline__ void unpack(const uint4& unit, float (&values)[kCount]) {
  const uint32_t words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = Element<T>::value(words[i * 4 / kCount], i % (kCount / 4));
  }
}

template <class T, int kCount>
__device__ __forceinline__ uint4 pack(const float (&values)[kCount]) {
  if constexpr (kCount == 4) {
    return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]),
                      __float_as_uint(values[2]), __float_as_uint(values[3]));
  } else {
    return make_uint4(
        Element<T>::pair(values[0], values[1]), Element<T>::pair(values[2], values[3]),
        Element<T>::pair(values[4], values[5]), Element<T>::pair(values[6], values[7]));
  }
}

template <class T, int kIndex, class Position>
__device__ __forceinline__ void write_tile(const Arguments& args, const Position& at, int32_t warp,
                                           int32_t lane, unsigned char* shared,
                                           Sums<kIndex>& sums) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr int kPitch = slice_pitch(kTile);
  constexpr int kUnitElements = kUnitBytes / sizeof(T);
  constexpr int kUnits = kTile.warp_channels / kUnitElements;  // of a pixel
  static_assert(32 % kUnits == 0);
  constexpr int kAtOnce = 32 / kUnits;  // pixels
  const Gather& g = args.geometry;
  const ResultMemory<kIndex> memory(shared);
  memory.template fill<T>(args, at);
  __syncthreads();

  float* const slice = memory.slices + warp * slice_floats(kTile);
  const int32_t first_pixel = warp / kTile.warps_along_channels() * kTile.warp_pixels;
  const int32_t channel = warp % kTile.warps_along_channels() * kTile.warp_channels +
                          lane % kUnits * kUnitElements;  // in the tile
  const bool exists = at.channel + channel < g.rows;
  const int64_t group_channel = int64_t{at.group} * g.rows + at.channel + channel;
  // Loops, not unrolled, so that each activation's code is there once: the sums come to the first
  // block of pixels.
#pragma unroll 1
  for (int block = 0; block < Sums<kIndex>::kPixelBlocks; ++block) {
#pragma unroll
    for (int j = 0; j < Sums<kIndex>::kChannelBlocks; ++j) {
      const float (&four)[4] = sums.of[0][j];
      float* const to = slice + lane / 4 * kPitch + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(four[0], four[1]);
      *reinterpret_cast<float2*>(to + 8 * kPitch) = make_float2(four[2], four[3]);
    }
    __syncwarp();
#pragma unroll 1
    for (int row = lane / kUnits; row < kSliceRows; row += kAtOnce) {
      const int64_t place = memory.places[first_pixel + block * kSliceRows + row];
      if (!exists || place == kNowhere) continue;
      const int64_t offset = place + group_channel * g.destination.c;
      float values[kUnitElements], terms[kUnitElements];
      load_floats(slice + row * kPitch + lane % kUnits * kUnitElements, values);
      load_floats(memory.bias + channel, terms);
#pragma unroll
      for (int i = 0; i < kUnitElements; ++i) values[i] += terms[i];
      load_floats(memory.scale + channel, terms);
#pragma unroll
      for (int i = 0; i < kUnitElements; ++i) values[i] *= terms[i];
      load_floats(memory.shift + channel, terms);
#pragma unroll
      for (int i = 0; i < kUnitElements; ++i) values[i] += terms[i];
      if (args.fusion.residual != nullptr) {
        unpack<T>(__ldg(reinterpret_cast<const uint4*>(static_cast<const T*>(args.fusion.residual) +
                                                       offset)),
                  terms);
#pragma unroll
        for (int i = 0; i < kUnitElements; ++i) values[i] += terms[i];
      }
      with_activation(args.fusion.activation, [&](auto activation) {
#pragma unroll
        for (float& value : values) value = activation(value);
      });
      *reinterpret_cast<uint4*>(static_cast<T*>(args.destination) + offset) = pack<T>(values);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i + 1 < Sums<kIndex>::kPixelBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < Sums<kIndex>::kChannelBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i + 1][j][k];
      }
    }
  }
}

}  // namespace haloconv::implicit_gemm
