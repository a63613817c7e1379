// The ring of rows of units in a block's shared memory: warps that bring rows, and that read them.
#pragma once

#include <cuda/ptx>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/round.cuh"
#include "conv2d/families/first_layers/arguments.h"
#include "cuda/mbarrier.cuh"
#include "cuda/tma.cuh"

namespace haloconv::sm90::first_layers {

struct RowBarriers {
  uint64_t full[kMaxRing], empty[kMaxRing];

  __device__ __forceinline__ void init(int32_t rows) {
    for (int32_t i = 0; i < rows; ++i) {
      cuda::ptx::mbarrier_init(&full[i], 32);  // all lanes of the warp that brings it
      cuda::ptx::mbarrier_init(&empty[i], kMathGroups * 4);
    }
  }
};

// One warp's rows of a block's run, every kWarps'th: bring(to, image, row, first column).
template <int kWarps, class Bring>
__device__ __forceinline__ void produce_rows(const Sweep& sweep, unsigned char* ring,
                                             RowBarriers& barriers, int32_t warp,
                                             int32_t first_tile, int32_t end_tile, Bring bring) {
  int32_t next = warp;  // this warp's next row, from the segment's first on
  RingPosition at;
  for (int32_t i = 0; i < warp; ++i) at.advance(sweep.ring);
  for (int32_t tile = first_tile; tile < end_tile;) {
    const TilePlace place(sweep, tile);
    const int32_t tiles = min(place.tiles_below(sweep), end_tile - tile);
    const int32_t rows = sweep.rows_of_segment(tiles);
    const int32_t first_row = place.band * sweep.tile_rows * sweep.stride_h - sweep.pad_top;
    const int32_t first_column = place.strip * sweep.columns * sweep.units.stride - sweep.pad_left;
    for (; next < rows; next += kWarps) {
      mbarrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
      bring(ring + at.stage * sweep.row_bytes, place.image, first_row + next, first_column);
      // The matrix instruction reads by another path than these writes take.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.full[at.stage]);
      for (int i = 0; i < kWarps; ++i) at.advance(sweep.ring);
    }
    next -= rows;
    tile += tiles;
  }
}

template <class T>
inline constexpr int kUnitElements = kUnitBytes / sizeof(T);

// A factor as it is multiplied.
template <class T>
__device__ __forceinline__ uint32_t bits_of(T value) {
  if constexpr (sizeof(T) == 4) {
    return round_to_tf32(value);
  } else {
    return reinterpret_cast<const uint16_t&>(value);
  }
}

// Puts a unit's element where there are zeros.
template <class T>
__device__ __forceinline__ void put_element(uint32_t (&words)[4], int i, uint32_t bits) {
  if constexpr (sizeof(T) == 4) {
    words[i] |= bits;
  } else {
    words[i / 2] |= bits << i % 2 * 16;
  }
}

// Rows that are read element by element, however the input lies.
template <class T>
class GatheredRows {
 public:
  __device__ __forceinline__ explicit GatheredRows(const Sweep& sweep)
      : sweep_(sweep), lane_(static_cast<int32_t>(threadIdx.x) % 32) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const UnitElement element(sweep, i);
      offset_[i] = element.offset;
      column_[i] = element.column;
      exists_ |= uint32_t{element.exists} << i;
      if (element.is_one) put_element<T>(ones_, i, bits_of(T(1.0f)));
    }
  }

  __device__ __forceinline__ void bring(unsigned char* to, int32_t image, int32_t row,
                                        int32_t first_column) const {
    const bool is_inside = row >= 0 && row < sweep_.h;
    const auto* const pixels =
        static_cast<const T*>(sweep_.input) + image * sweep_.input_n + row * sweep_.input_h;
    const UnitRow& units = sweep_.units;
#pragma unroll 1
    for (int32_t i = 0; i < units.planes; ++i) {
      const UnitPlane plane = units.plane[i];
      // Elements that are taps of the plane.
      const uint32_t wanted =
          is_inside ? exists_ & ((1u << (plane.taps << units.log_padded)) - 1) : 0;
#pragma unroll 1
      for (int32_t first = lane_; first < plane.units; first += kAtOnce * 32) {
        uint4 values[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int32_t column = first_column + units.column_of(plane, first + j * 32, 0);
          values[j] = gather(pixels, column, wanted);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int32_t unit = first + j * 32;
          if (unit < plane.units) {
            *reinterpret_cast<uint4*>(to + (plane.first_unit + unit) * kUnitBytes) = values[j];
          }
        }
      }
    }
  }

 private:
  static constexpr int kElements = kUnitElements<T>;
  static constexpr int kAtOnce = 2;  // units of a lane on the way

  __device__ __forceinline__ uint4 gather(const T* pixels, int32_t column, uint32_t wanted) const {
    const int64_t first = int64_t{column} * sweep_.input_w;
    uint32_t words[4] = {ones_[0], ones_[1], ones_[2], ones_[3]};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int32_t at = column + column_[i];
      const bool is_read = (wanted >> i & 1) != 0 && at >= 0 && at < sweep_.w;
      put_element<T>(words, i, is_read ? bits_of(__ldg(pixels + first + offset_[i])) : 0);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  const Sweep& sweep_;
  const int32_t lane_;
  int32_t offset_[kElements], column_[kElements];
  uint32_t exists_ = 0, ones_[4] = {};
};

// A math warp's view of the ring: it waits for rows, and releases them, in their order.
class RowConsumer {
 public:
  __device__ __forceinline__ RowConsumer(const Sweep& sweep, RowBarriers& barriers)
      : ring_(sweep.ring), barriers_(barriers) {}

  // Waits until so many rows are there, counted from the first that is not released.
  __device__ __forceinline__ void wait(int32_t rows) {
    for (; ahead_ < rows; ++ahead_) {
      mbarrier_wait(&barriers_.full[next_.stage], next_.parity);
      next_.advance(ring_);
    }
  }

  // Releases rows that were waited for; called by a whole warp.
  __device__ __forceinline__ void release(int32_t rows) {
    ahead_ -= rows;
    for (; rows > 0; --rows) {
      if (threadIdx.x % 32 == 0) {
        cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                   cuda::ptx::space_shared, &barriers_.empty[first_]);
      }
      first_ = slot(1);
    }
  }

  // The place of the row `rows` after the first one.
  __device__ __forceinline__ int32_t slot(int32_t rows) const {
    const int32_t at = first_ + rows;
    return at >= ring_ ? at - ring_ : at;
  }

 private:
  const int32_t ring_;
  RowBarriers& barriers_;
  int32_t first_ = 0, ahead_ = 0;
  RingPosition next_;
};

// Rows that no later tile of the run reads.
__device__ __forceinline__ int32_t rows_done_after(const Sweep& sweep, const TilePlace& place,
                                                   bool is_last_of_run) {
  const bool is_last = is_last_of_run || place.tiles_below(sweep) == 1;
  return is_last ? sweep.rows_of_tile() : sweep.rows_to_next();
}

}  // namespace haloconv::sm90::first_layers
