#include "conv2d/families/relaid/transpose.h"

#include <cuda_runtime.h>

#include <type_traits>

#include "cuda/dependent_launch.cuh"

namespace haloconv::relaid {

namespace {

constexpr int kThreads = 256, kBlocks = 8;  // of a multiprocessor
// A tile in shared memory has as many elements in a line as it has lines. With one word more in
// each line, words of one column are in different banks.
constexpr int kLineWords = 32;
using Line = uint32_t[kLineWords + 1];

// An element, as its bits.
template <class Bits>
struct TileOf {
  static constexpr int kInWord = 4 / sizeof(Bits);
  static constexpr int kSide = tile_side(sizeof(Bits));
  static constexpr int kUnit = elements_of_unit(sizeof(Bits));
  Line lines[kSide];
};

// So many bytes, moved by one instruction.
template <int kBytes>
using Vector = std::conditional_t<
    kBytes == 2, uint16_t,
    std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 8, uint2, uint4>>>;

// Which tile of which tensor a block copies.
struct TilePlace {
  const TensorCopy& copy;
  int32_t pixel, channel;  // its first
};

__device__ __forceinline__ TilePlace place_of(const Copies& copies, int32_t side) {
  auto tile = static_cast<int32_t>(blockIdx.x);
  int i = 0;
  for (; tile >= copies.copy[i].tiles; ++i) tile -= copies.copy[i].tiles;
  const TensorCopy& copy = copies.copy[i];
  const int32_t pixel_tile = copy.channel_tiles.quotient(tile);
  return {.copy = copy,
          .pixel = pixel_tile * copy.tile_pixels,
          .channel = (tile - pixel_tile * copy.channel_tiles.divisor) * side};
}

// Elements from the tensor's beginning to a pixel.
__device__ __forceinline__ int64_t pixel_at(const TensorCopy& copy, int32_t pixel) {
  const int32_t n = copy.image.quotient(pixel);
  pixel -= n * copy.image.divisor;
  const int32_t h = copy.row.quotient(pixel);
  const int32_t w = pixel - h * copy.row.divisor;
  return n * copy.strides.n + h * copy.strides.h + w * copy.strides.w;
}

// A pixel's place in the dense tensor; -1: it has none there.
__device__ __forceinline__ int32_t dense_pixel(const TensorCopy& copy, int32_t pixel) {
  const int32_t n = copy.image.quotient(pixel);
  pixel -= n * copy.image.divisor;
  const int32_t h = copy.columns.quotient(pixel);
  const int32_t w = pixel - h * copy.columns.divisor;
  const int32_t p = copy.step_h.quotient(h), q = copy.step_w.quotient(w);
  const bool is_there = p * copy.step_h.divisor == h && q * copy.step_w.divisor == w;
  return is_there ? (n * copy.dense_rows + p) * copy.dense_columns + q : -1;
}

// Writes one or several elements to a line.
__device__ __forceinline__ void put(uint32_t* to, uint4 bits) {
  to[0] = bits.x, to[1] = bits.y, to[2] = bits.z, to[3] = bits.w;
}
__device__ __forceinline__ void put(uint32_t* to, uint2 bits) { to[0] = bits.x, to[1] = bits.y; }
__device__ __forceinline__ void put(uint32_t* to, uint32_t bits) { *to = bits; }

template <class Bits, class Some>
__device__ __forceinline__ void put(Line& line, int at, Some bits) {
  if constexpr (sizeof(Some) == 2) {
    reinterpret_cast<uint16_t*>(line)[at] = bits;
  } else {
    put(line + at / TileOf<Bits>::kInWord, bits);
  }
}

// The first or the second element of each word.
template <class Bits, int kCount>
__device__ __forceinline__ Vector<kCount* int{sizeof(Bits)}> gather(const uint32_t (&words)[kCount],
                                                                    int which) {
  constexpr int kWords = kCount * int{sizeof(Bits)} / 4;
  if constexpr (kWords == 0) {
    return static_cast<uint16_t>(which == 0 ? words[0] : words[0] >> 16);
  } else {
    uint32_t some[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(Bits) == 4) {
        some[i] = words[i];
      } else {
        some[i] = __byte_perm(words[2 * i], words[2 * i + 1], which == 0 ? 0x5410 : 0x7632);
      }
    }
    if constexpr (kWords == 1) return some[0];
    if constexpr (kWords == 2) return make_uint2(some[0], some[1]);
    if constexpr (kWords == 4) return make_uint4(some[0], some[1], some[2], some[3]);
  }
}

// Neighbours in memory, so many elements apart; their count may be negative, which means none.
template <class Element>
struct Run {
  Element* first;
  int64_t step;
  int32_t count;

  __device__ __forceinline__ bool has(int32_t i) const { return i < count; }
  __device__ __forceinline__ Element* at(int32_t i) const { return first + i * step; }
};

// Brings a tile, kCount elements of a line at once, and zeros for those that do not exist.
// from(along) gives the run of lines at a place along them.
template <class Bits, int kCount, class From>
__device__ __forceinline__ void load(TileOf<Bits>& tile, From from) {
  using Some = Vector<kCount* int{sizeof(Bits)}>;
  constexpr int kLanes = TileOf<Bits>::kSide / kCount, kAtOnce = kThreads / kLanes;
  constexpr int kSteps = TileOf<Bits>::kSide / kAtOnce;
  const auto first = static_cast<int32_t>(threadIdx.x / kLanes);
  const auto along = static_cast<int32_t>(threadIdx.x % kLanes) * kCount;
  const auto run = from(along);
  Some some[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int32_t line = first + i * kAtOnce;
    some[i] = Some{};
    if (run.has(line)) some[i] = *reinterpret_cast<const Some*>(run.at(line));
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) put<Bits>(tile.lines[first + i * kAtOnce], along, some[i]);
}

// Writes a tile, kCount neighbouring lines' elements at once. to(line) gives the run along them.
template <class Bits, int kCount, class To>
__device__ __forceinline__ void store(const TileOf<Bits>& tile, To to) {
  using Some = Vector<kCount* int{sizeof(Bits)}>;
  constexpr int kInWord = TileOf<Bits>::kInWord;
  constexpr int kLanes = TileOf<Bits>::kSide / kCount, kAtOnce = kThreads / kLanes;
  constexpr int kSteps = kLineWords / kAtOnce;
  const auto line = static_cast<int32_t>(threadIdx.x % kLanes) * kCount;
  const auto first = static_cast<int32_t>(threadIdx.x / kLanes);
  const auto run = to(line);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int32_t word = first + step * kAtOnce;
    uint32_t words[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i] = tile.lines[line + i][word];
#pragma unroll
    for (int which = 0; which < kInWord; ++which) {
      const int32_t along = word * kInWord + which;
      if (run.has(along)) *reinterpret_cast<Some*>(run.at(along)) = gather<Bits>(words, which);
    }
  }
}

// The channels of a pixel of the tile in a tensor with any strides.
template <class Element>
__device__ __forceinline__ Run<Element> channels_of(const TilePlace& place, Element* tensor,
                                                    int32_t pixel) {
  const TensorCopy& copy = place.copy;
  const bool is_there = place.pixel + pixel < copy.pixels;
  const int64_t at = is_there ? pixel_at(copy, place.pixel + pixel) : 0;
  return {.first = tensor + at + place.channel * copy.strides.c,
          .step = copy.strides.c,
          .count = is_there ? copy.channels - place.channel : 0};
}

// The pixels of a channel of the tile in the dense tensor, up to its `end`-th.
template <class Element>
__device__ __forceinline__ Run<Element> pixels_of(const TilePlace& place, Element* tensor,
                                                  int32_t channel, int32_t end) {
  const TensorCopy& copy = place.copy;
  const int32_t padded = copy.padded_channels;
  const bool is_there = place.channel + channel < padded;
  return {.first = tensor + int64_t{place.pixel} * padded + place.channel + channel,
          .step = padded,
          .count = is_there ? end - place.pixel : 0};
}

// The same for a dense tensor that has some of the pixels.
template <class Element>
struct SpreadRun {
  const TilePlace& place;
  Run<Element> of_all;  // as if it had all pixels
  Element* first;       // of the tensor

  __device__ __forceinline__ bool has(int32_t i) const {
    return of_all.has(i) && dense_pixel(place.copy, place.pixel + i) >= 0;
  }
  __device__ __forceinline__ Element* at(int32_t i) const {
    return first + dense_pixel(place.copy, place.pixel + i) * of_all.step;
  }
};

// Calls body.template operator()<unit>() with the unit by which the tensor's pixels are moved.
template <class Bits, class Body>
__device__ __forceinline__ void with_unit(int32_t unit, Body body) {
  if constexpr (sizeof(Bits) == 2) {
    if (unit == 8) return body.template operator()<8>();
  }
  if (unit == 4) return body.template operator()<4>();
  if (unit == 2) return body.template operator()<2>();
  body.template operator()<1>();
}

// Few channels of many pixels, which have no gaps between them.
__device__ __forceinline__ void copy_few_channels(const TilePlace& place, TileOf<uint16_t>& tile) {
  const TensorCopy& copy = place.copy;
  const int32_t channels = copy.padded_channels;
  const int32_t pixels = min(copy.tile_pixels, copy.pixels - place.pixel);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  auto* const values = reinterpret_cast<uint16_t*>(tile.lines);
  const auto* const from =
      static_cast<const uint16_t*>(copy.from) + int64_t{place.pixel} * channels;
  const int32_t count = pixels * channels, whole = count / 8 * 8;
#pragma unroll 1
  for (int32_t i = thread * 8; i < whole; i += kThreads * 8) {
    put(reinterpret_cast<uint32_t*>(values + i), *reinterpret_cast<const uint4*>(from + i));
  }
  if (thread < count - whole) values[whole + thread] = from[whole + thread];
  __syncthreads();
  with_unit<uint16_t>(copy.unit, [&]<int kUnit>() {
#pragma unroll 1
    for (int32_t i = thread * kUnit; i < pixels; i += kThreads * kUnit) {
      uint16_t* to = static_cast<uint16_t*>(copy.to) + pixel_at(copy, place.pixel + i);
#pragma unroll 1
      for (int32_t channel = 0; channel < copy.channels; ++channel) {
        uint32_t words[kUnit];
#pragma unroll
        for (int k = 0; k < kUnit; ++k) words[k] = values[(i + k) * channels + channel];
        *reinterpret_cast<Vector<kUnit * 2>*>(to) = gather<uint16_t>(words, 0);
        to += copy.strides.c;
      }
    }
  });
}

// A tile of one image, brought in the order in which it lies in memory; zeros where there is none.
template <class Bits>
__device__ __forceinline__ void load_image(const TilePlace& place, TileOf<Bits>& tile) {
  constexpr int kBatch = 7;  // of 7 x 7 pixels two
  const TensorCopy& copy = place.copy;
  const int32_t image_pixels = copy.image.divisor;
  const auto count_of = [&](int32_t channels) {
    return min(TileOf<Bits>::kSide, channels - place.channel) * image_pixels;
  };
  const int32_t count = place.pixel < copy.pixels ? count_of(copy.channels) : 0;
  const int32_t padded = count_of(copy.padded_channels);
  const auto* const from = static_cast<const Bits*>(copy.from) +
                           copy.image.quotient(place.pixel) * copy.strides.n +
                           place.channel * copy.strides.c;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < padded; i += kBatch * kThreads) {
    Bits bits[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      bits[k] = 0;
      if (i + k * kThreads < count) bits[k] = from[i + k * kThreads];
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (i + k * kThreads >= padded) break;
      const int32_t channel = copy.image.quotient(i + k * kThreads);
      const int32_t pixel = i + k * kThreads - channel * image_pixels;
      put<Bits>(tile.lines[channel], pixel, bits[k]);
    }
  }
}

// A tile of whole images, written in the order in which it lies in memory.
template <class Bits>
__device__ __forceinline__ void store_images(const TilePlace& place, const TileOf<Bits>& tile) {
  const TensorCopy& copy = place.copy;
  const int32_t image_pixels = copy.image.divisor;
  const int32_t channels = min(TileOf<Bits>::kSide, copy.channels - place.channel);
  const int32_t first_image = copy.image.quotient(place.pixel);
  const int32_t images = copy.image.quotient(min(copy.tile_pixels, copy.pixels - place.pixel));
  for (int32_t image = 0; image < images; ++image) {
    Bits* const to = static_cast<Bits*>(copy.to) + (first_image + image) * copy.strides.n +
                     place.channel * copy.strides.c;
#pragma unroll 4
    for (auto i = static_cast<int32_t>(threadIdx.x); i < channels * image_pixels; i += kThreads) {
      const int32_t channel = copy.image.quotient(i);
      const int32_t pixel = i - channel * image_pixels;
      to[i] = reinterpret_cast<const Bits*>(tile.lines[image * image_pixels + pixel])[channel];
    }
  }
}

// Lines are channels.
template <class Bits>
__global__ void __launch_bounds__(kThreads, kBlocks)
    to_channels(const __grid_constant__ Copies copies) {
  using Tile = TileOf<Bits>;
  __shared__ Tile tile;
  const TilePlace place = place_of(copies, Tile::kSide);
  const TensorCopy& copy = place.copy;
  allow_dependents();
  wait_for_kernel_before();
  if (copy.way == Way::kImages) {
    load_image(place, tile);
  } else {
    with_unit<Bits>(copy.unit, [&]<int kUnit>() {
      load<Bits, kUnit>(tile, [&](int32_t pixel) {
        return channels_of(place, static_cast<const Bits*>(copy.from), pixel);
      });
    });
  }
  __syncthreads();
  const int32_t end = min(copy.padded_pixels, place.pixel + copy.tile_pixels);
  store<Bits, Tile::kUnit>(tile, [&](int32_t channel) {
    return pixels_of(place, static_cast<Bits*>(copy.to), channel, end);
  });
}

// Lines are pixels.
template <class Bits>
__global__ void __launch_bounds__(kThreads, kBlocks)
    to_rows(const __grid_constant__ Copies copies) {
  using Tile = TileOf<Bits>;
  __shared__ Tile tile;
  const TilePlace place = place_of(copies, Tile::kSide);
  const TensorCopy& copy = place.copy;
  allow_dependents();
  wait_for_kernel_before();
  if constexpr (sizeof(Bits) == 2) {
    if (copy.way == Way::kFewChannels) return copy_few_channels(place, tile);
  }
  const auto* const from = static_cast<const Bits*>(copy.from);
  const auto pixels = [&](int32_t channel) { return pixels_of(place, from, channel, copy.pixels); };
  if (copy.dense_rows == 0) {
    load<Bits, Tile::kUnit>(tile, pixels);
  } else {
    load<Bits, Tile::kUnit>(tile, [&](int32_t channel) {
      return SpreadRun<const Bits>{place, pixels(channel), from + place.channel + channel};
    });
  }
  __syncthreads();
  if (copy.way == Way::kImages) return store_images(place, tile);
  with_unit<Bits>(copy.unit, [&]<int kUnit>() {
    store<Bits, kUnit>(tile, [&](int32_t pixel) {
      return channels_of(place, static_cast<Bits*>(copy.to), pixel);
    });
  });
}

// Launches one of the two for the type of the copies' elements.
void launch(const Copies& copies, void (*of_16_bits)(Copies), void (*of_32_bits)(Copies),
            const char* name, cudaStream_t stream) {
  const auto kernel = copies.copy[0].element_bytes == 2 ? of_16_bits : of_32_bits;
  launch_dependent(kernel, static_cast<unsigned>(copies.tiles), kThreads, 0, stream, name, copies);
}

}  // namespace

void launch_to_channels(const Copies& copies, cudaStream_t stream) {
  launch(copies, to_channels<uint16_t>, to_channels<uint32_t>, "relaid to_channels", stream);
}

void launch_to_rows(const Copies& copies, cudaStream_t stream) {
  launch(copies, to_rows<uint16_t>, to_rows<uint32_t>, "relaid to_rows", stream);
}

}  // namespace haloconv::relaid
