// Brings rows of the source, one after the other, to a team's shared memory: team_descents.h.
#pragma once

#include "conv2d/device/round.cuh"
#include "conv2d/families/implicit_gemm/loader.cuh"
#include "conv2d/families/implicit_gemm/team_descents/team_descents.h"
#include "cuda/copy_granule.cuh"
#include "cuda/mma.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::implicit_gemm {

// A block's descent.
struct TeamDescent {
  int64_t image;
  int32_t row, column;  // of results; warps begin up to a sector before the column
  int32_t rows;

  __device__ __forceinline__ TeamDescent(const Arguments& args, int32_t columns, int32_t number) {
    const Patches& patches = args.patches[0];
    const int32_t line = patches.columns.quotient(number);
    column = (number - line * patches.columns.divisor) * columns;
    const int32_t image_number = patches.rows.quotient(line);
    row = (line - image_number * patches.rows.divisor) * args.strips.rows;
    image = image_number;
    rows = min(args.strips.rows, args.phases[0].h.pixels - row);
  }
};

// The source's column that the first tap of a result's column meets, in the order of the source.
__device__ __forceinline__ int32_t team_source_column(const Arguments& args, int32_t column) {
  const AxisPhase& w = args.phases[0].w;
  return column + w.origin + w.first_shift -
         taps_before(kTeamTaps, args.geometry.axis_w.shift_step);
}

// The first that is staged.
template <class T>
__device__ __forceinline__ int32_t team_first_column(const Arguments& args, int32_t column) {
  constexpr auto kBytes = static_cast<int32_t>(sizeof(T));
  return team_source_column(args, column - (sector_elements(kBytes) - 1)) & -(kUnitBytes / kBytes);
}

// Copies the rows of all descents of the block, one after the other. A warp has two channels.
template <class T>
class TeamLoader {
  static constexpr auto kBytes = static_cast<int32_t>(sizeof(T));

 public:
  __device__ __forceinline__ TeamLoader(const Arguments& args, const TeamMemory& memory,
                                        int32_t columns, int32_t group, int32_t first, int32_t warp,
                                        int32_t lane)
      : args_(args), memory_(memory), columns_(columns), number_(first), warp_(warp), lane_(lane) {
    const Gather& g = args.geometry;
    channel_ =
        static_cast<const T*>(args.source) + (int64_t{group} * g.channels + warp) * g.source.c;
    begin();
  }

  // The next row, if there is one: a group of copies.
  __device__ __forceinline__ void copy(uint32_t staging) {
    if (rows_left_ > 0) {
      with_granule(args_.staging.granule, [&]<int kBytes>() { copy_row<kBytes>(staging); });
      ++h_;
      from_ += args_.geometry.source.h;
      if (--rows_left_ == 0) {
        number_ += args_.strips.blocks;
        begin();
      }
    }
    commit_copies();
  }

 private:
  __device__ __forceinline__ void begin() {
    if (number_ >= static_cast<int32_t>(args_.pixel_tiles)) return;
    const TeamDescent at(args_, columns_, number_);
    const Gather& g = args_.geometry;
    const AxisPhase& h = args_.phases[0].h;
    rows_left_ = at.rows + kTeamTaps - 1;
    h_ = at.row + h.origin + h.first_shift - taps_before(kTeamTaps, g.axis_h.shift_step);
    w_ = team_first_column<T>(args_, at.column);
    from_ = channel_ + at.image * g.source.n + h_ * g.source.h + w_;
  }

  template <int kGranule>
  __device__ __forceinline__ void copy_row(uint32_t staging) const {
    constexpr int32_t kPixels = kGranule / kBytes;
    const Gather& g = args_.geometry;
    const bool inside = static_cast<uint32_t>(h_) < static_cast<uint32_t>(g.source_h);
    const uint32_t to = staging + warp_ * memory_.line_bytes;
#pragma unroll 1
    for (int32_t pixel = lane_ * kPixels; pixel < memory_.pixels; pixel += 32 * kPixels) {
      const int32_t w = w_ + pixel;
      const int32_t pixels = inside && w >= 0 ? min(max(g.source_w - w, 0), kPixels) : 0;
#pragma unroll
      for (int i = 0; i < kTeamChannels; i += kTeamWarps) {
        copy_async_bytes<kGranule>(to + i * memory_.line_bytes + pixel * kBytes,
                                   from_ + i * g.source.c + pixel,
                                   warp_ + i < g.channels ? pixels * kBytes : 0);
      }
    }
  }

  const Arguments& args_;
  const TeamMemory& memory_;
  int32_t columns_, number_, warp_, lane_;
  const T* channel_;  // the warp's first
  const T* from_;
  int32_t h_, w_, rows_left_ = 0;
};

// From a staged row to a turned one, by all of the team's warps: each turns kTurnedPixels of a unit
// at a time.
template <class T>
class TeamTurn {
  static constexpr auto kBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int kUnits = TeamMemory::units(kBytes);
  static constexpr bool kIsFloat = kBytes == 4;
  // Pixels from one of the warp's turns to its next.
  static constexpr int kStep = kTeamWarps / kUnits * kTurnedPixels;

 public:
  __device__ __forceinline__ TeamTurn(const TeamMemory& memory, int32_t warp, int32_t lane)
      : memory_(memory), first_(warp / kUnits * kTurnedPixels) {
    const int32_t unit = warp % kUnits;
    if constexpr (kIsFloat) {
      from_ = unit * 4 * memory.line_bytes + (first_ + lane) * kBytes;
      to_ = unit * memory.unit_bytes + team_place(first_ + lane, kBytes) * kUnitBytes;
    } else {
      from_ = (unit * 8 + lane % 8) * memory.line_bytes + (first_ + lane / 8 * 8) * kBytes;
      to_ = unit * memory.unit_bytes + (first_ + lane / 4) * kUnitBytes + lane % 4 * kWordBytes;
    }
  }

  __device__ __forceinline__ void begin(uint32_t staging, uint32_t row) {
    from_now_ = staging + from_;
    to_now_ = row + to_;
    pixel_ = first_;
  }
  // The next of the warp's turns, if there is one: its loads, then its stores.
  __device__ __forceinline__ void load() {
    if (pixel_ >= memory_.places) return;
    if constexpr (kIsFloat) {
#pragma unroll
      for (int i = 0; i < 4; ++i) load_shared_bits(from_now_ + i * memory_.line_bytes, words_[i]);
    } else {
      load_matrices_transposed(from_now_, words_);
    }
  }
  __device__ __forceinline__ void store() {
    if (pixel_ >= memory_.places) return;
    if constexpr (kIsFloat) {
      for (uint32_t& word : words_) word = round_to_tf32(__uint_as_float(word));
      store_unit(to_now_, words_);
    } else {
      // As team_place() has it, for the place of the first 8 pixels.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        store_shared_bits((to_now_ ^ (i * 2 * kUnitBytes)) + i * 8 * kUnitBytes, words_[i]);
      }
    }
    pixel_ += kStep;
    from_now_ += kStep * kBytes;
    to_now_ += kStep * kUnitBytes;
  }
  __device__ __forceinline__ bool has_next() const { return pixel_ < memory_.places; }

 private:
  const TeamMemory& memory_;
  int32_t first_, from_, to_;
  uint32_t from_now_, to_now_;
  int32_t pixel_;
  uint32_t words_[4];
};

}  // namespace haloconv::implicit_gemm
