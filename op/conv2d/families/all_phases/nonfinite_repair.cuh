// Results that are NaN only by zeros that the definition does not have, computed once more. A
// product has such a zero
//
//   in the filter, where a pixel of a period meets no tap by a shift, or channels are of different
//   groups: it makes NaN of what is not finite in the source;
//   in the source, at positions beside it: it makes NaN of a weight that is not finite, unless this
//   is packed as a finite one (weight_flags.h).
//
// A warp multiplies what it has written once more by the matrix instruction, for 16 periods and 8
// columns, but by each shift, group and 32 bytes of channels for itself, with zeros only where both
// operands have them. A thread adds those of the products to its sums that these have by the
// definition.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/all_phases/finite_weights.cuh"
#include "conv2d/families/all_phases/lone_weights.cuh"
#include "conv2d/families/all_phases/places.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/mma.cuh"

namespace haloconv::all_phases {

template <class T, int kBlocks, int kColumns>
class NonfiniteRepair {
 public:
  // Of 16 periods from the first position on, and a tile's columns.
  __device__ __forceinline__ NonfiniteRepair(const Arguments& args, int32_t column_tile,
                                             const ColumnPlace* columns, const ColumnFlags* flags,
                                             int32_t first)
      : args_(args),
        flags_(flags),
        column_tile_(column_tile),
        first_(first),
        lane_(static_cast<int32_t>(threadIdx.x) % 32),
        columns_(columns + lane_ % 4 * 2),
        has_groups_(args.group_sources.divisor < args.source_channels),
        packed_(static_cast<const unsigned char*>(args.packed) +
                int64_t{column_tile} * args.chunks * args.filter_bytes + lane_ * 4),
        all_((1u << args.h.shifts * args.w.shifts) - 1) {
    for (int32_t u = 0; u < args.h.shifts; ++u) last_of_rows_ |= 1u << (u + 1) * args.w.shifts - 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t position = first + half * 8 + lane_ / 4;
      const PeriodOf period(args, position);
      places_[half] = place_of(args, period);
      const int32_t p = period.row + args.h.shifts - 1 - args.h.source_at;
      const int32_t q = period.column + args.w.shifts - 1 - args.w.source_at;
      met_[half] = places_[half].pixels == 0 ? 0 : met_by(args.h, p, args.w, q);
      words_[half] = reinterpret_cast<const unsigned char*>(
          static_cast<const T*>(args.source) + first_source_of(args, column_tile) +
          period.image * args.source_n + p * args.source_h + q * args.source_w +
          lane_ % 4 * Of::kPerWord * args.source_c);
      if (args.packed_source != nullptr) {
        words_[half] =
            static_cast<const unsigned char*>(args.packed_source) + lane_ % 4 * 4 +
            int64_t{16} * (position + (args.h.shifts - 1) * args.w.positions + args.w.shifts - 1);
      }
    }
  }

  // Whether all periods meet the source by all shifts, or are none.
  __device__ __forceinline__ bool is_amid() const {
    bool is_amid = true;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      is_amid = is_amid && (met_[half] == all_ || places_[half].pixels == 0);
    }
    return __all_sync(~0u, is_amid) != 0;
  }

  // Of all columns.
  __device__ __forceinline__ void run() const {
    constexpr int kSteps = kColumns / 8, kTogether = kSteps < 4 ? kSteps : 4;
#pragma unroll 1
    for (int32_t first = 0; first < kSteps; first += kTogether) {
      uint32_t doubtful = doubtful_results<kTogether>(first);
#pragma unroll 1
      for (int32_t i = 0; i < kTogether; ++i, doubtful >>= 4) {
        if (__any_sync(~0u, (doubtful & 15) != 0)) repair(first + i, doubtful & 15);
      }
    }
  }

  // Of so many steps of 8 columns, by their bits.
  __device__ __forceinline__ void run(uint32_t steps) const {
#pragma unroll 1
    for (; steps != 0; steps &= steps - 1) {
      const int32_t step = __ffs(static_cast<int32_t>(steps)) - 1;
      const uint32_t doubtful = doubtful_results<1>(step);
      if (__any_sync(~0u, doubtful != 0)) repair(step, doubtful);
    }
  }

 private:
  using Of = Element<T>;
  static constexpr int kStepChannels = 2 * Of::kPerCell;  // of the matrix instruction
  // Products whose operands are on the way: as many as the kernel has registers for.
  static constexpr int kAtOnce = kBlocks == 2 ? 4 : 2;

  // The shifts by which a period meets a pixel of the source; p, q: that of the first shift.
  __device__ __forceinline__ uint32_t met_by(const Axis& h, int32_t p, const Axis& w,
                                             int32_t q) const {
    uint32_t row = 0, met = 0;
    for (int32_t v = 0; v < w.shifts; ++v) {
      if (static_cast<uint32_t>(q - v) < static_cast<uint32_t>(w.source_extent)) row |= 1u << v;
    }
    for (int32_t u = 0; u < h.shifts; ++u) {
      if (static_cast<uint32_t>(p - u) < static_cast<uint32_t>(h.source_extent)) {
        met |= row << u * w.shifts;
      }
    }
    return met;
  }

  // The shifts by which a column's pixels meet a tap. Only the last one along an axis may lack it.
  __device__ __forceinline__ uint32_t shifts_with_taps(uint32_t pixel) const {
    // The pixels' bits that have a tap by the last shift.
    const int32_t rows = args_.h.taps - (args_.h.shifts - 1) * args_.h.stride;
    const int32_t columns = args_.w.taps - (args_.w.shifts - 1) * args_.w.stride;
    uint32_t shifts = all_;
    if ((pixel >> 16 >> columns) != 0) shifts &= ~last_of_rows_;
    if (((pixel & 0xffff) >> rows) != 0) {
      shifts &= (1u << (args_.h.shifts - 1) * args_.w.shifts) - 1;
    }
    return shifts;
  }

  // Which of a thread's results are NaN that may not be: four bits of each step of columns.
  template <int kSteps>
  __device__ __forceinline__ uint32_t doubtful_results(int32_t first) const {
    float results[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const ColumnPlace column = columns_[(first + step) * 8 + i % 2];
        const PeriodPlace& period = places_[i / 2];
        const bool may_be = has_groups_ || (shifts_with_taps(column.pixel) & met_[i / 2]) != all_;
        results[step][i] = 0;
        if (may_be && exists(period, column)) {
          results[step][i] =
              Of::to_float(static_cast<const T*>(args_.destination)[period.offset + column.offset]);
        }
      }
    }
    uint32_t doubtful = 0;
#pragma unroll
    for (int i = 0; i < kSteps * 4; ++i) {
      if (isnan(results[i / 4][i % 4])) doubtful |= 1u << i;
    }
    return doubtful;
  }

  __device__ __forceinline__ void repair(int32_t step, uint32_t doubtful) const {
    const ColumnPlace columns[2] = {columns_[step * 8], columns_[step * 8 + 1]};
    uint32_t own[4], shifts = 0;  // by which the sums have products
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      own[i] = (doubtful >> i & 1) != 0 ? shifts_with_taps(columns[i % 2].pixel) & met_[i / 2] : 0;
      shifts |= own[i];
    }
    shifts = __reduce_or_sync(~0u, shifts);
    float sums[4] = {};
    if (!has_groups_) {
      add<false>(step, 0, shifts, own, sums);
    } else {
      const int32_t groups[2] = {args_.group_channels.quotient(columns[0].channel),
                                 args_.group_channels.quotient(columns[1].channel)};
      const int32_t first = __reduce_min_sync(~0u, min(groups[0], groups[1]));
      const int32_t last = __reduce_max_sync(~0u, max(groups[0], groups[1]));
#pragma unroll 1
      for (int32_t group = first; group <= last; ++group) {
        uint32_t of_group[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) of_group[i] = groups[i % 2] == group ? own[i] : 0;
        const bool is_wanted = (of_group[0] | of_group[1] | of_group[2] | of_group[3]) != 0;
        if (__any_sync(~0u, is_wanted)) add<true>(step, group, shifts, of_group, sums);
      }
    }
    if constexpr (takes_lone_weights(kColumns)) add_lone(step, doubtful, sums);
    write(columns, doubtful, sums);
  }

  // The products that packed weights lack.
  __device__ __forceinline__ void add_lone(int32_t step, uint32_t doubtful,
                                           float (&sums)[4]) const {
    uint32_t left = flags_->lone[step / 4] >> step % 4 * 8 & 255;
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const int32_t of_step = __ffs(static_cast<int32_t>(left)) - 1;
      if (of_step / 2 != lane_ % 4) continue;
#pragma unroll 1
      for (int32_t number = of_step % 2; number < 4; number += 2) {
        const int32_t positions[1] = {first_ + number / 2 * 8 + lane_ / 4};
        float products[1] = {};
        LoneWeights<T, kColumns>(args_, column_tile_)
            .add(step * 8 + of_step, positions, doubtful >> number & 1, products);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (i == number) sums[i] += products[0];
        }
      }
    }
  }

  template <bool kGroups>
  __device__ __forceinline__ void add(int32_t step, int32_t group, uint32_t shifts,
                                      const uint32_t (&own)[4], float (&sums)[4]) const {
    if (args_.packed_source != nullptr) {
      add<kGroups, true>(step, group, shifts, own, int64_t{args_.packed_positions} * 16,
                         args_.w.positions * 16, 16, sums);
    } else {
      constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
      const int64_t unit = Of::kPerCell * args_.source_c * kBytes;
      const int64_t row = args_.source_h * kBytes, column = args_.source_w * kBytes;
      if (args_.reads_units) {
        add<kGroups, true>(step, group, shifts, own, unit, row, column, sums);
      } else {
        add<kGroups, false>(step, group, shifts, own, unit, row, column, sums);
      }
    }
  }

  template <bool kGroups, bool kWords>
  __device__ __forceinline__ void add(int32_t step, int32_t group, uint32_t shifts,
                                      const uint32_t (&own)[4], int64_t unit, int64_t row,
                                      int64_t column, float (&sums)[4]) const {
    if constexpr (kGroups) {
      add_group<kWords>(step, group, shifts, own, unit, row, column, sums);
    } else {
      add_shifts<kWords>(step, shifts, own, unit, row, column, sums);
    }
  }

  // Adds the products by the shifts, `own` of them to each sum: those of a shift with all channels
  // at once. A unit of 16 bytes of channels is so many bytes after the one before, and a shift's
  // pixels before the first one's.
  template <bool kWords>
  __device__ __forceinline__ void add_shifts(int32_t step, uint32_t shifts,
                                             const uint32_t (&own)[4], int64_t unit, int64_t row,
                                             int64_t column, float (&sums)[4]) const {
    const auto columns_of_row = static_cast<uint32_t>(args_.w.shifts);
    const uint32_t reciprocal = (255 + columns_of_row) / columns_of_row;  // of 256, for 16 shifts
#pragma unroll 1
    for (uint32_t left = shifts; left != 0; left &= left - 1) {
      const uint32_t bit = left & -left, shift = __ffs(static_cast<int32_t>(left)) - 1;
      const uint32_t u = shift * reciprocal >> 8, v = shift - u * columns_of_row;
      int64_t offset = -(u * row + v * column);
      const unsigned char* filter_at = packed_ + step * 256 + shift * (kColumns * 64);
      float products[4] = {};
#pragma unroll 1
      for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
        uint32_t source[2][4], filter[2][2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int32_t channel = (chunk * kChunkUnits + i * 2) * Of::kPerCell;
          const uint32_t masks[2] = {mask_of(channel, 0, args_.source_channels),
                                     mask_of(channel + Of::kPerCell, 0, args_.source_channels)};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const uint32_t mask = (met_[j % 2] & bit) != 0 ? masks[j / 2] : 0;
            source[i][j] =
                source_word<kWords>(words_[j % 2] + offset + (i * 2 + j / 2) * unit, mask);
          }
          load_global_bits(filter_at + i * (kColumns * 32), filter[i][0], true);
          load_global_bits(filter_at + i * (kColumns * 32) + 128, filter[i][1], true);
        }
        offset += kChunkUnits * unit;
        filter_at += args_.filter_bytes;
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply_add<T>(products, source[i], filter[i]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if ((own[j] & bit) != 0) sums[j] += products[j];
      }
    }
  }

  // The same of a group, several shifts at once.
  template <bool kWords>
  __device__ __forceinline__ void add_group(int32_t step, int32_t group, uint32_t shifts,
                                            const uint32_t (&own)[4], int64_t unit, int64_t row,
                                            int64_t column, float (&sums)[4]) const {
    const int32_t first = group * args_.group_sources.divisor;
    const int32_t end = first + args_.group_sources.divisor;
    const auto columns_of_row = static_cast<uint32_t>(args_.w.shifts);
    const uint32_t reciprocal = (255 + columns_of_row) / columns_of_row;  // of 256, for 16 shifts
#pragma unroll 1
    for (int32_t channel = first / kStepChannels * kStepChannels; channel < end;
         channel += kStepChannels) {
      const int32_t number = channel / Of::kPerCell, chunk = number / kChunkUnits;
      const unsigned char* const filter_at = packed_ + int64_t{chunk} * args_.filter_bytes +
                                             number % kChunkUnits / 2 * (kColumns * 32) +
                                             step * 256;
      const uint32_t masks[2] = {mask_of(channel, first, end),
                                 mask_of(channel + Of::kPerCell, first, end)};
#pragma unroll 1
      for (uint32_t left = shifts; left != 0;) {
        uint32_t source[kAtOnce][4], filter[kAtOnce][2], bits[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          bits[i] = left & -left;
          const uint32_t shift = left == 0 ? 0 : __ffs(static_cast<int32_t>(left)) - 1;
          left &= left - 1;
          const uint32_t u = shift * reciprocal >> 8, v = shift - u * columns_of_row;
          const int64_t offset = number * unit - u * row - v * column;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const uint32_t mask = (met_[j % 2] & bits[i]) != 0 ? masks[j / 2] : 0;
            source[i][j] = source_word<kWords>(words_[j % 2] + offset + j / 2 * unit, mask);
          }
          const unsigned char* const of_shift = filter_at + shift * (kColumns * 64);
          load_global_bits(of_shift, filter[i][0], bits[i] != 0);
          load_global_bits(of_shift + 128, filter[i][1], bits[i] != 0);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          float products[4] = {};
          multiply_add<T>(products, source[i], filter[i]);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if ((own[j] & bits[i]) != 0) sums[j] += products[j];
          }
        }
      }
    }
  }

  // The bits of the thread's word of a unit of channels that are of those from `first` up to `end`.
  __device__ __forceinline__ uint32_t mask_of(int32_t channel, int32_t first, int32_t end) const {
    const int32_t own = channel + lane_ % 4 * Of::kPerWord;
    const uint32_t low = own >= first && own < end ? ~0u : 0;
    if constexpr (Of::kPerWord == 1) {
      return low;
    } else {
      const uint32_t high = own + 1 >= first && own + 1 < end ? ~0u : 0;
      return (low & 0xffff) | (high & 0xffff0000);
    }
  }

  template <bool kWords>
  __device__ __forceinline__ uint32_t source_word(const unsigned char* at, uint32_t mask) const {
    uint32_t word = 0;
    if constexpr (kWords || Of::kPerWord == 1) {
      load_global_bits(at, word, mask != 0);
    } else {
      uint16_t values[2];
      const auto* const first = reinterpret_cast<const T*>(at);
      load_global_bits(first, values[0], (mask & 0xffff) != 0);
      load_global_bits(first + args_.source_c, values[1], (mask >> 16) != 0);
      return values[0] | static_cast<uint32_t>(values[1]) << 16;
    }
    if constexpr (Of::kPerWord == 1) return round_to_tf32(__uint_as_float(word));
    return word & mask;
  }

  __device__ __forceinline__ void write(const ColumnPlace (&columns)[2], uint32_t doubtful,
                                        float (&sums)[4]) const {
    static_assert(kFusedAtOnce == 4);
    T* const destination = static_cast<T*>(args_.destination);
    if (args_.is_fused) {
      OutputElement elements[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        elements[i] = {.exists = (doubtful >> i & 1) != 0,
                       .channel = columns[i % 2].channel,
                       .offset = places_[i / 2].offset + columns[i % 2].offset};
      }
      fuse_values<T>(args_.bias, args_.fusion, elements, sums);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += columns[i % 2].bias;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value[1] = {sums[i]};
      Of::store(destination + places_[i / 2].offset + columns[i % 2].offset, value,
                (doubtful >> i & 1) != 0);
    }
  }

  const Arguments& args_;
  const ColumnFlags* const flags_;
  const int32_t column_tile_, first_;
  const int32_t lane_;
  const ColumnPlace* const columns_;  // from the thread's first of a step on
  const bool has_groups_;
  const unsigned char* const packed_;  // the thread's words
  const uint32_t all_;                 // shifts
  uint32_t last_of_rows_ = 0;          // of the shifts the last one along the columns
  PeriodPlace places_[2];
  uint32_t met_[2];                // the shifts by which a period meets a pixel of the source
  const unsigned char* words_[2];  // of the pixel that it meets by the first shift
};

// The steps of 8 columns, by their bits, that have units of several weights which are not finite.
__device__ __forceinline__ uint32_t steps_with_several(const ColumnFlags* flags) {
  uint32_t steps = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if ((flags->several[i / 4] >> i % 4 * 8 & 255) != 0) steps |= 1u << i;
  }
  return steps;
}

template <class T, int kBlocks, int kColumns>
__device__ __forceinline__ void repair(const Arguments& args, int32_t column_tile,
                                       const ColumnPlace* columns, const ColumnFlags* flags,
                                       int32_t first) {
  constexpr bool kTakesLone = takes_lone_weights(kColumns);
  if constexpr (!kTakesLone) wait_for_kernel_before();  // so far others have waited for it
  const bool edges_alone = args.group_sources.divisor == args.source_channels && !args.has_gaps;
  uint32_t steps = 0;  // whose weights are not all finite, or lone
  if constexpr (kTakesLone) {
    steps = steps_with_several(flags);
    if (edges_alone && steps == 0) return;
  }
#pragma unroll 1
  for (int block = 0; block < kBlocks; ++block) {
    const NonfiniteRepair<T, kBlocks, kColumns> of_block(args, column_tile, columns, flags,
                                                         first + block * 64);
    if (!edges_alone) {
      of_block.run();
    } else if (!of_block.is_amid()) {
      if (!kTakesLone && steps == 0) steps = steps_not_finite<kColumns>(args, column_tile);
      if (steps == 0) return;
      of_block.run(steps);
    }
  }
}

}  // namespace haloconv::all_phases
