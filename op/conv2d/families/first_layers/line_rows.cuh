// Rows of units of inputs whose rows are contiguous, in lines of all channels or of one each: a
// warp brings the row's lines to shared memory by 16 bytes, and puts units together there.
#pragma once

#include "conv2d/families/first_layers/row_ring.cuh"

namespace haloconv::sm90::first_layers {

template <class T>
class LineRows {
 public:
  // `lines`: the warp's own room.
  __device__ __forceinline__ LineRows(const Sweep& sweep, unsigned char* lines)
      : sweep_(sweep),
        lines_(reinterpret_cast<T*>(lines)),
        lane_(static_cast<int32_t>(threadIdx.x) % 32) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const UnitElement element(sweep, i);
      offset_[i] = element.in_lines;
      exists_ |= uint32_t{element.exists} << i;
      if (element.is_one) put_element<T>(ones_, i, bits_of(T(1.0f)));
    }
  }

  __device__ __forceinline__ void bring(unsigned char* to, int32_t image, int32_t row,
                                        int32_t first_column) const {
    const bool is_inside = row >= 0 && row < sweep_.h;
    const UnitRow& units = sweep_.units;
    const int32_t first = sweep_.lines.first(units, first_column);
    bring_lines(image, row, first, is_inside);
    __syncwarp();
#pragma unroll 1
    for (int32_t i = 0; i < units.planes; ++i) {
      const UnitPlane plane = units.plane[i];
      // Elements that are taps of the plane.
      const uint32_t wanted = exists_ & ((1u << (plane.taps << units.log_padded)) - 1);
      const T* const from =
          lines_ + (first_column + units.column_of(plane, 0, 0)) * sweep_.lines.step - first;
      const int32_t unit_step = units.stride * sweep_.lines.step;
#pragma unroll 2
      for (int32_t unit = lane_; unit < plane.units; unit += 32) {
        const T* const at = from + unit * unit_step;
        uint32_t words[4] = {ones_[0], ones_[1], ones_[2], ones_[3]};
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
          if ((wanted >> j & 1) != 0) put_element<T>(words, j, bits_of(at[offset_[j]]));
        }
        *reinterpret_cast<uint4*>(to + (plane.first_unit + unit) * kUnitBytes) =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
    __syncwarp();  // before other lanes bring the next row's lines
  }

 private:
  static constexpr int kElements = kUnitElements<T>;
  static constexpr int kAtOnce = 4;  // vectors of a lane on the way

  // Brings each line from element `first` on, with zeros beyond its ends.
  __device__ __forceinline__ void bring_lines(int32_t image, int32_t row, int32_t first,
                                              bool is_inside) const {
    const Lines& lines = sweep_.lines;
    const auto* const from =
        static_cast<const T*>(sweep_.input) + image * sweep_.input_n + row * sweep_.input_h;
    const int32_t vectors = lines.count * lines.vectors.divisor;
#pragma unroll 1
    for (int32_t begin = lane_; begin < vectors; begin += kAtOnce * 32) {
      uint4 values[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int32_t i = begin + j * 32, line = lines.vectors.quotient(i);
        const int32_t element = first + (i - line * lines.vectors.divisor) * kElements;
        const bool is_read = is_inside && i < vectors && element >= 0 && element < lines.elements;
        values[j] = is_read ? __ldg(reinterpret_cast<const uint4*>(
                                  from + int64_t{line} * sweep_.input_c + element))
                            : uint4{};
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (begin + j * 32 < vectors) {
          reinterpret_cast<uint4*>(lines_)[begin + j * 32] = values[j];
        }
      }
    }
  }

  const Sweep& sweep_;
  T* const lines_;
  const int32_t lane_;
  int32_t offset_[kElements];
  uint32_t exists_ = 0, ones_[4] = {};
};

// A warp's part of a block's rows; `lines` is the shared memory of all kWarps warps.
template <class T, int kWarps>
__device__ __forceinline__ void bring_rows(const Sweep& sweep, unsigned char* ring,
                                           unsigned char* lines, RowBarriers& barriers,
                                           int32_t warp, int32_t first_tile, int32_t end_tile) {
  const auto run = [&](const auto& rows) {
    produce_rows<kWarps>(sweep, ring, barriers, warp, first_tile, end_tile,
                         [&](unsigned char* to, int32_t image, int32_t row, int32_t first_column) {
                           rows.bring(to, image, row, first_column);
                         });
  };
  if (sweep.lines.count > 0) {
    run(LineRows<T>(sweep, lines + warp * sweep.lines.bytes(sizeof(T))));
  } else {
    run(GatheredRows<T>(sweep));
  }
}

}  // namespace haloconv::sm90::first_layers
