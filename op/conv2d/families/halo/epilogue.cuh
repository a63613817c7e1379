// Writes the results of a math warpgroup's tile. The accumulators go to shared memory, which brings
// them from the instruction's layout into rows, and from there to global memory. Bias, and what is
// fused with the convolution, are added on the way.
//
// Each warp has 16 of the tile's channels and works alone, 8 channels at a time. With splits, the
// same warps of a cluster's blocks add their sums: each takes a share of the 8 channels and reads
// the sums that the others have staged, always in the order of the blocks.
#pragma once

#include <type_traits>

#include "conv2d/families/halo/nonfinite_marker.cuh"
#include "conv2d/families/halo/residual.cuh"
#include "conv2d/families/halo/row_terms.cuh"
#include "conv2d/families/halo/written_sums.cuh"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth, bool kSplit, bool kFused, bool kFolds>
class Epilogue : WrittenSums<T, kInstructions * kWidth, kSplit, kFused> {
  static_assert(!(kSplit && kFused), "an activation of a part of a sum is none of the sum");
  static_assert(!kFused || std::is_same_v<T, float>, "a residual is copied as it lies");
  static constexpr int kPixels = kInstructions * kWidth;

  using Base = WrittenSums<T, kPixels, kSplit, kFused>;
  using Base::args_;
  using Base::begin_staging;
  using Base::end_staging;
  using Base::finish_staging;
  using Base::shared_;
  using Base::stage;
  using Base::write;

 public:
  // `round`: of the barriers between splits, kept from tile to tile.
  __device__ __forceinline__ Epilogue(const Arguments& args, const SharedMemory& shared,
                                      int32_t split, uint32_t& round)
      : Base(args, shared, split, round) {}

  // `index`: the tile's. Calls after_sums() when it needs neither sums nor terms any longer.
  template <class Body>
  __device__ __forceinline__ void run(const float (&sums)[kInstructions][kWidth / 2],
                                      const RowTerms<T, kFused>& terms, const TilePosition& tile,
                                      uint32_t index, Body after_sums) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      begin_staging();
      if constexpr (kFused) {
        if (half == 1) Residual<kPixels>(args_, shared_).begin(half, tile);
        wait_for_copies();
        __syncwarp();
      }
      stage(sums, half, terms);
      if constexpr (kFolds) NonfiniteMarker<T, kPixels>(args_, shared_).run(index);
      end_staging();
      if (half == 1) after_sums();
      write(half, tile);
      finish_staging();
    }
  }
};

}  // namespace haloconv::halo
