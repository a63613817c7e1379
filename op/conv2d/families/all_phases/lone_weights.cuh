// The products of weights that are alone in not being finite (weight_flags.h), added to the sums of
// a tile or to those that are computed again.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/all_phases/places.cuh"

namespace haloconv::all_phases {

template <class T, int kColumns>
class LoneWeights {
 public:
  __device__ __forceinline__ LoneWeights(const Arguments& args, int32_t column_tile)
      : args_(args), column_tile_(column_tile) {}

  // Adds to each sum its column's products with its period's pixels, of those that are wanted.
  // `column`: of the tile, the same for all sums.
  template <int kCount>
  __device__ __forceinline__ void add(int32_t column, const int32_t (&positions)[kCount],
                                      uint32_t wanted, float (&sums)[kCount]) const {
    const auto [product, first] = args_.columns_of(column_tile_, kColumns);
    const ColumnOf of = args_.column_of(first + column);
    const T* const filter = filter_of<T>(args_, product, of);
    const uint32_t* const flags =
        flags_of(args_) + (int64_t{column_tile_} * kColumns + column) * args_.chunks;
#pragma unroll 1
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
#pragma unroll 1
      for (uint32_t left = flags[chunk], unit = chunk * kChunkUnits; left != 0;
           left >>= 8, ++unit) {
        if (!is_lone(left & 255)) continue;
        const int32_t weight = number_of_lone(left & 255), shift = weight / kPerCell;
        const int32_t k = static_cast<int32_t>(unit) * kPerCell + weight % kPerCell;
        const int32_t u = shift / args_.w.shifts, v = shift - u * args_.w.shifts;
        const float value =
            load(filter + k * args_.filter_k + (of.row + u * args_.h.stride) * args_.filter_r +
                 (of.column + v * args_.w.stride) * args_.filter_s);
        // The position of the pixel that a period meets.
        const int32_t beyond =
            (args_.h.shifts - 1 - u) * args_.w.positions + args_.w.shifts - 1 - v;
        float pixels[kCount];
        uint32_t met = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          const T* from = static_cast<const T*>(args_.source) +
                          first_source_of(args_, column_tile_) + k * args_.source_c;
          pixels[i] = 0;
          if ((wanted >> i & 1) != 0 && find_pixel(args_, positions[i] + beyond, from)) {
            pixels[i] = load(from);
            met |= 1u << i;
          }
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if ((met >> i & 1) != 0) sums[i] += value * pixels[i];
        }
      }
    }
  }

 private:
  static constexpr int kPerCell = Element<T>::kPerCell;

  const Arguments& args_;
  const int32_t column_tile_;
};

// To all sums of a warp, whose first period is at a position: the columns' one after the other.
template <class T, int kBlocks, int kColumns>
__device__ __forceinline__ void add_lone_weights(const Arguments& args, int32_t column_tile,
                                                 const ColumnFlags* flags, int32_t first,
                                                 int32_t lane,
                                                 float (&sums)[kBlocks][kColumns / 2]) {
  // Pixels that are on the way at once: all, if the sums leave room.
  constexpr int kRegisters = kBlocks == 1 ? 80 : 168;
  constexpr int kHalves = kBlocks * 2;
  constexpr int kAtOnce = kRegisters - kBlocks * kColumns / 2 >= 64 ? kHalves : 1;
  const LoneWeights<T, kColumns> weights(args, column_tile);
#pragma unroll 1
  for (int32_t word = 0; word < (kColumns + 31) / 32; ++word) {
#pragma unroll 1
    for (uint32_t left = flags->lone[word]; left != 0; left &= left - 1) {
      const int32_t column = word * 32 + __ffs(static_cast<int32_t>(left)) - 1;
      const bool is_own = column % 8 / 2 == lane % 4;
#pragma unroll 1
      for (int half = 0; half < kHalves; half += kAtOnce) {
        int32_t positions[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          positions[i] = first + (half + i) / 2 * 64 + (half + i) % 2 * 8 + lane / 4;
        }
        float products[kAtOnce] = {};
        weights.add(column, positions, is_own ? (1u << kAtOnce) - 1 : 0, products);
        const int32_t own = is_own ? column / 8 * 2 + column % 2 : -1;
#pragma unroll
        for (int i = 0; i < kColumns / 4; ++i) {
#pragma unroll
          for (int j = 0; j < kHalves; ++j) {
            if (i == own && j / kAtOnce == half / kAtOnce) {
              sums[j / 2][i / 2 * 4 + j % 2 * 2 + i % 2] += products[j % kAtOnce];
            }
          }
        }
      }
    }
  }
}

}  // namespace haloconv::all_phases
