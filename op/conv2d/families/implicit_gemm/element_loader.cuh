// Brings the source to shared memory element by element, by way of registers: its channels may lie
// anywhere. Neighbouring threads have neighbouring pixels.
#pragma once

#include "conv2d/device/unit_elements.cuh"
#include "conv2d/families/implicit_gemm/loader.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::implicit_gemm {

// A thread has some units of one pixel. It loads a part of them while an earlier stage is
// multiplied, and then stores it: of 16-bit types all would take too many registers.
template <class T, int kIndex>
class ElementLoader {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr int kUnitElements = kUnitBytes / sizeof(T);
  static constexpr int kUnits = kRowUnits * kTile.pixels / kTile.threads();

 public:
  static constexpr int kParts = sizeof(T) == 4 ? 1 : 2;

 private:
  static constexpr int kPartUnits = kUnits / kParts;
  static_assert(kTile.threads() % kTile.pixels == 0 && kUnits % kParts == 0);

 public:
  // What is on its way.
  struct Part {
    ElementBits<T> elements[kPartUnits][kUnitElements];
  };

  __device__ __forceinline__ ElementLoader(const Arguments& args, const TilePosition& at)
      : args_(args),
        phase_(args.phases[at.phase]),
        row_(static_cast<int32_t>(threadIdx.x) % kTile.pixels),
        // The same for all threads of a warp, which the compiler cannot see.
        first_unit_(__shfl_sync(~0u, static_cast<int32_t>(threadIdx.x) / kTile.pixels, 0) *
                    kUnits) {
    const Gather& g = args.geometry;
    const PixelRange range(at.pixel, phase_.plane, phase_.columns);
    const Site site =
        at.pixel + row_ < phase_.pixels ? gather_pixel(g, phase_, range[row_]) : outside();
    h_ = site.h;
    w_ = site.w;
    source_ = static_cast<const T*>(args.source) + int64_t{at.group} * g.channels * g.source.c +
              site.offset;
  }

  __device__ __forceinline__ void load(int32_t step, int part, Part& to) const {
    const Gather& g = args_.geometry;
#pragma unroll
    for (int i = 0; i < kPartUnits; ++i) {
      const int32_t unit = step * kRowUnits + first_unit_ + part * kPartUnits + i;
      const UnitPlace at(args_.channel_units, phase_.taps_w, unit, kUnitElements);
      const UnitShift shift(g, phase_, at);
      const bool inside = unit * kUnitElements < phase_.reduction &&
                          static_cast<uint32_t>(h_ + shift.h) < static_cast<uint32_t>(g.source_h) &&
                          static_cast<uint32_t>(w_ + shift.w) < static_cast<uint32_t>(g.source_w);
      const int32_t channels = inside ? g.channels - at.channel : 0;
      // shift.elements counts channels as if they lay side by side.
      const T* from = source_ + (shift.elements + at.channel * (g.source.c - 1));
      load_elements(from, g.source.c, channels, to.elements[i]);
    }
  }

  __device__ __forceinline__ void store(uint32_t stage, int part, const Part& from) const {
#pragma unroll
    for (int i = 0; i < kPartUnits; ++i) {
      const int32_t unit = first_unit_ + part * kPartUnits + i;
      uint32_t words[4];
      pack_elements</*kRounds=*/true>(from.elements[i], words);
      store_unit(stage + static_cast<uint32_t>(place_of_unit(row_, unit)), words);
    }
  }

 private:
  const Arguments& args_;
  const Phase& phase_;
  int32_t row_, first_unit_, h_, w_;
  const T* source_;
};

}  // namespace haloconv::implicit_gemm
