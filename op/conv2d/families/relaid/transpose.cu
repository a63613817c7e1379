#include "conv2d/families/relaid/transpose.h"

#include <type_traits>

#include "cuda/check.h"

namespace haloconv::relaid {

namespace {

constexpr int kThreads = 256;
// A tile in shared memory has as many elements a line as it has lines. With one word more a line,
// words of one column lie in different banks.
constexpr int kLineWords = 32;
using Line = uint32_t[kLineWords + 1];

// Of an element type, as its bits.
template <class Bits>
struct TileOf {
  static constexpr int kInWord = 4 / sizeof(Bits);
  static constexpr int kSide = tile_side(sizeof(Bits));
  static constexpr int kUnit = elements_of_unit(sizeof(Bits));
  Line lines[kSide];
};

// So many bytes, which one instruction moves.
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
          .pixel = pixel_tile * side,
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

// An element or several to a line.
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

// The first or the second element of each of some words.
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

// Brings a tile, kCount elements of a line at once. from(along) is called once, for the place along
// all lines that the thread has, and gives a function of a line to its address there, or null, for
// zeros.
template <class Bits, int kCount, class From>
__device__ __forceinline__ void load(TileOf<Bits>& tile, From from) {
  using Some = Vector<kCount* int{sizeof(Bits)}>;
  constexpr int kLanes = TileOf<Bits>::kSide / kCount, kAtOnce = kThreads / kLanes;
  constexpr int kSteps = TileOf<Bits>::kSide / kAtOnce;
  const auto first = static_cast<int32_t>(threadIdx.x / kLanes);
  const auto along = static_cast<int32_t>(threadIdx.x % kLanes) * kCount;
  const auto address_of = from(along);
  Some some[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const Bits* const address = address_of(first + i * kAtOnce);
    some[i] = Some{};
    if (address != nullptr) some[i] = *reinterpret_cast<const Some*>(address);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) put<Bits>(tile.lines[first + i * kAtOnce], along, some[i]);
}

// Writes a tile, kCount neighbouring lines' elements at once. to(line) is called once, for the
// first of the thread's lines, and gives a function of a place along these to its address, or null.
template <class Bits, int kCount, class To>
__device__ __forceinline__ void store(const TileOf<Bits>& tile, To to) {
  using Some = Vector<kCount* int{sizeof(Bits)}>;
  constexpr int kInWord = TileOf<Bits>::kInWord;
  constexpr int kLanes = TileOf<Bits>::kSide / kCount, kAtOnce = kThreads / kLanes;
  constexpr int kSteps = kLineWords / kAtOnce;
  const auto line = static_cast<int32_t>(threadIdx.x % kLanes) * kCount;
  const auto first = static_cast<int32_t>(threadIdx.x / kLanes);
  const auto address_of = to(line);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int32_t word = first + step * kAtOnce;
    uint32_t words[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i] = tile.lines[line + i][word];
#pragma unroll
    for (int which = 0; which < kInWord; ++which) {
      Bits* const address = address_of(word * kInWord + which);
      if (address != nullptr) {
        *reinterpret_cast<Some*>(address) = gather<Bits>(words, which);
      }
    }
  }
}

// The address of an element of a tensor with any strides, or null.
template <class Bits, class Tensor>
__device__ __forceinline__ auto in_rows(const TilePlace& place, Tensor* tensor, int32_t pixel) {
  using Element = std::conditional_t<std::is_const_v<Tensor>, const Bits, Bits>;
  const TensorCopy& copy = place.copy;
  const bool is_there = place.pixel + pixel < copy.pixels;
  Element* const at =
      static_cast<Element*>(tensor) + (is_there ? pixel_at(copy, place.pixel + pixel) : 0);
  return [=, &copy, &place](int32_t channel) -> Element* {
    const int32_t of_tensor = place.channel + channel;
    return is_there && of_tensor < copy.channels ? at + of_tensor * copy.strides.c : nullptr;
  };
}

// The address of an element of the dense tensor, which has so many pixels, or null.
template <class Bits, class Tensor>
__device__ __forceinline__ auto in_channels(const TilePlace& place, Tensor* tensor, int32_t pixels,
                                            int32_t pixel, int32_t channel) {
  using Element = std::conditional_t<std::is_const_v<Tensor>, const Bits, Bits>;
  const int32_t padded = place.copy.padded_channels;
  const int32_t of_pixel = place.pixel + pixel, of_channel = place.channel + channel;
  return of_pixel < pixels && of_channel < padded
             ? static_cast<Element*>(tensor) + int64_t{of_pixel} * padded + of_channel
             : nullptr;
}

// Calls body.template operator()<unit>() with what the tensor's pixels are moved by.
template <class Bits, class Body>
__device__ __forceinline__ void with_unit(int32_t unit, Body body) {
  if constexpr (sizeof(Bits) == 2) {
    if (unit == 8) return body.template operator()<8>();
  }
  if (unit == 4) return body.template operator()<4>();
  if (unit == 2) return body.template operator()<2>();
  body.template operator()<1>();
}

// Lines are channels.
template <class Bits>
__global__ void __launch_bounds__(kThreads) to_channels(const __grid_constant__ Copies copies) {
  using Tile = TileOf<Bits>;
  __shared__ Tile tile;
  const TilePlace place = place_of(copies, Tile::kSide);
  const TensorCopy& copy = place.copy;
  with_unit<Bits>(copy.unit, [&]<int kUnit>() {
    load<Bits, kUnit>(tile, [&](int32_t pixel) { return in_rows<Bits>(place, copy.from, pixel); });
  });
  __syncthreads();
  store<Bits, Tile::kUnit>(tile, [&](int32_t channel) {
    return [&, channel](int32_t pixel) {
      return in_channels<Bits>(place, copy.to, copy.padded_pixels, pixel, channel);
    };
  });
}

// Lines are pixels.
template <class Bits>
__global__ void __launch_bounds__(kThreads) to_rows(const __grid_constant__ Copies copies) {
  using Tile = TileOf<Bits>;
  __shared__ Tile tile;
  const TilePlace place = place_of(copies, Tile::kSide);
  const TensorCopy& copy = place.copy;
  load<Bits, Tile::kUnit>(tile, [&](int32_t channel) {
    return [&, channel](int32_t pixel) {
      return in_channels<Bits>(place, copy.from, copy.pixels, pixel, channel);
    };
  });
  __syncthreads();
  with_unit<Bits>(copy.unit, [&]<int kUnit>() {
    store<Bits, kUnit>(tile, [&](int32_t pixel) { return in_rows<Bits>(place, copy.to, pixel); });
  });
}

// Launches one of the two for the type of the copies' elements.
void launch(const Copies& copies, void (*of_16_bits)(Copies), void (*of_32_bits)(Copies),
            const char* name, cudaStream_t stream) {
  const auto kernel = copies.copy[0].element_bytes == 2 ? of_16_bits : of_32_bits;
  kernel<<<static_cast<unsigned>(copies.tiles), kThreads, 0, stream>>>(copies);
  check_launch(name);
}

}  // namespace

void launch_to_channels(const Copies& copies, cudaStream_t stream) {
  launch(copies, to_channels<uint16_t>, to_channels<uint32_t>, "relaid to_channels", stream);
}

void launch_to_rows(const Copies& copies, cudaStream_t stream) {
  launch(copies, to_rows<uint16_t>, to_rows<uint32_t>, "relaid to_rows", stream);
}

}  // namespace haloconv::relaid
