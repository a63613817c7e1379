// From a warp's sums to the result with what is fused, by way of shared memory: 16 periods and 16
// columns at a time, so that each activation's code is there once and neighbouring threads read and
// write neighbours.
#pragma once

#include "conv2d/families/all_phases/places.cuh"

namespace haloconv::all_phases {

template <class T, int kBlocks, int kColumns>
class FusedEpilogue {
 public:
  __device__ __forceinline__ FusedEpilogue(const Arguments& args,
                                           const SharedMemory<kColumns>& shared, int32_t warp,
                                           int32_t lane)
      : args_(args), periods_(shared.periods(warp)), slice_(shared.slice(warp)), lane_(lane) {}

  // Whether a result is NaN.
  __device__ __forceinline__ bool write(const TilePosition& tile, const ColumnPlace* columns,
                                        int32_t first, float (&sums)[kBlocks][kColumns / 2]) const {
    bool has_nan = false;
    const int32_t first_column = args_.columns_of(tile.column_tile, kColumns).first;
    const int32_t slices =
        min(kColumns, args_.columns - first_column + kSliceColumns - 1) / kSliceColumns;
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      if (lane_ < 16) {
        periods_[lane_] = place_of(args_, PeriodOf(args_, first + block * 64 + lane_));
      }
      __syncwarp();
      // The sums of a slice come to the first ones' place, so that no register is chosen by number.
#pragma unroll 1
      for (int slice = 0; slice < slices; ++slice) {
        stage(sums[0]);
        __syncwarp();
        has_nan |= write_slice(columns + slice * kSliceColumns);
        __syncwarp();
#pragma unroll
        for (int i = 0; i + kSliceSums < kColumns / 2; ++i) sums[0][i] = sums[0][i + kSliceSums];
      }
      if constexpr (kBlocks == 2) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sums[0][i] = sums[1][i];
      }
    }
    return has_nan;
  }

 private:
  static constexpr int kSliceSums = kSliceColumns / 2;
  static constexpr int kSliceElements = kSliceColumns * 16;

  __device__ __forceinline__ void stage(const float (&sums)[kColumns / 2]) const {
    float* const to = slice_ + lane_ % 4 * 2 * kSlicePitch + lane_ / 4;
#pragma unroll
    for (int i = 0; i < kSliceSums; ++i) {
      to[(i / 4 * 8 + i % 2) * kSlicePitch + i % 4 / 2 * 8] = sums[i];
    }
  }

  __device__ __forceinline__ bool write_slice(const ColumnPlace* columns) const {
    const int32_t run = 1 << args_.log2_run;
    bool has_nan = false;
#pragma unroll 1
    for (int32_t first = lane_; first < kSliceElements; first += 32 * kFusedAtOnce) {
      float values[kFusedAtOnce];
      OutputElement elements[kFusedAtOnce];
#pragma unroll
      for (int i = 0; i < kFusedAtOnce; ++i) {
        const int32_t number = first + i * 32;
        const int32_t rest = number >> args_.log2_run;
        const int32_t column = (rest >> 4 << args_.log2_run) + (number & (run - 1));
        const ColumnPlace of = columns[column];
        const PeriodPlace period = periods_[rest & 15];
        elements[i] = {.exists = exists(period, of),
                       .channel = of.channel,
                       .offset = period.offset + of.offset};
        values[i] = slice_[column * kSlicePitch + (rest & 15)];
      }
      fuse_values<T>(args_.bias, args_.fusion, elements, values);
#pragma unroll
      for (int i = 0; i < kFusedAtOnce; ++i) {
        if (elements[i].exists) {
          store(static_cast<T*>(args_.destination) + elements[i].offset, values[i]);
          has_nan |= isnan(values[i]);
        }
      }
    }
    return has_nan;
  }

  const Arguments& args_;
  PeriodPlace* const periods_;  // of the warp
  float* const slice_;
  const int32_t lane_;
};

}  // namespace haloconv::all_phases
