// Brings rows of the source, one after the other, to the ring of a strip.
#pragma once

#include "conv2d/families/implicit_gemm/staging_loader.cuh"
#include "conv2d/families/implicit_gemm/strips.h"

namespace haloconv::implicit_gemm {

template <class T>
class StripLoader : StagingLoader<T, kStripTile.threads()> {
  using Base = StagingLoader<T, kStripTile.threads()>;

 public:
  __device__ __forceinline__ StripLoader(const Arguments& args, const PatchPosition& at)
      : Base(args, first_row(args, at)) {}

  // Of the next row, if it exists, all channels, to the staging area: a group of copies.
  __device__ __forceinline__ void copy_row(uint32_t staging, bool exists) {
    Base::begin(0);
    const int32_t batches = exists ? Base::batches() : 0;
#pragma unroll 1
    for (int32_t i = 0; i < batches; ++i) {
      if (i > 0) Base::advance();
      Base::copy_only(staging);
    }
    ++origin_.h;
    source_ += args_.geometry.source.h;
    commit_copies();
  }

  // What is staged to where a row of the ring begins.
  __device__ __forceinline__ void turn_row(uint32_t staging, uint32_t row) const {
    turn_pixels<T, kStripTile.threads(), /*kInPlanes=*/true>(args_, staging, row,
                                                             args_.windows.pitch.divisor);
  }

 private:
  using Base::args_;
  using Base::origin_;
  using Base::source_;

  static __device__ __forceinline__ WindowOrigin first_row(const Arguments& args,
                                                           const PatchPosition& at) {
    WindowOrigin origin(args, at, /*patch_rows=*/1);
    origin.rows = 1;
    origin.columns += strip_columns(sizeof(T)) - kWideColumns;
    return origin;
  }
};

}  // namespace haloconv::implicit_gemm
