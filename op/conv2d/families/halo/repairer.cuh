// How what is marked as NaN is computed once more, a piece at a time (repair.h).
#pragma once

#include <cuda/std/limits>
#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/tile_order.cuh"
#include "cuda/mma.cuh"

namespace haloconv::halo {

inline constexpr int kRepairThreads = 256, kRepairBlocks = 2;  // of a multiprocessor
inline constexpr int kRepairWarps = kRepairThreads / 32;
inline constexpr int kPiecePixels =
    32;                               // of a math warp's tile, looked at together, one by each lane
inline constexpr int kWarpRows = 16;  // of the accumulators: a math warp's
inline constexpr int kMmaColumns = 8;  // of a warp's matrix instruction
inline constexpr int kMmas = kPiecePixels / kMmaColumns;
inline constexpr int kLocatedSteps = 32;  // whose operands a warp locates at once, one by each lane

// A pixel to compute.
struct RepairedPixel {
  int64_t source;       // elements to the source's pixel that output's first tap meets
  int32_t y, x;         // of that pixel, which may lie beside the source
  int64_t destination;  // elements to the output, of the group's first channel
};

// Where a step, a tap of a chunk, has its operands. It is the same for all pixels.
struct __align__(16) RepairStep {
  int64_t source;       // elements from a pixel's first tap and channel
  int32_t packed;       // steps of the packed filter from the first of the row's own
  int32_t channels;     // that are left from the chunk's first on; 0: there is no such step
  int32_t down, right;  // from a pixel's first tap

  // From shared memory, by two instructions.
  __device__ __forceinline__ void load(uint32_t at) {
    uint32_t words[4], shifts[2];
    load_shared_bits(at, words);
    load_shared_bits(at + 16, shifts);
    source = static_cast<int64_t>(uint64_t{words[1]} << 32 | words[0]);
    packed = static_cast<int32_t>(words[2]);
    channels = static_cast<int32_t>(words[3]);
    down = static_cast<int32_t>(shifts[0]);
    right = static_cast<int32_t>(shifts[1]);
  }
};

// By rows and pixels, with a pitch by which the sums of a matrix instruction meet no bank twice.
struct WarpSums {
  float at[kWarpRows][kPiecePixels + 8];
};

struct RepairShared {
  RepairedPixel pixels[kRepairWarps][kPiecePixels];
  WarpSums sums[kRepairWarps];
  RepairStep steps[kRepairWarps][kLocatedSteps];
};

// Computes what is NaN of pieces, each 16 rows of a tile's accumulators, of 32 pixels. The pixels
// that are NaN are the columns of the warp's matrix instruction, side by side, and the packed
// weights its rows; the taps are the rows' own, so that nothing meets another output's pixels. Of
// rows of 8 channels those of two outputs are computed one after the other.
//
// A few infinities leave a warp one piece at most, so that the time is that of one warp's
// instructions one after the other. Hence what does not depend on the piece is found beforehand,
// by all lanes at once.
//
// kShares: all warps of a block compute the same piece, each from some of the steps.
template <class T, bool kShares>
class Repairer {
  using Of = Element<T>;
  using Product = std::conditional_t<sizeof(T) == 4, float, T>;  // of the matrix instruction
  using Pixel = typename Of::template Pixels<1>;
  static constexpr int kChunk = 2 * Of::kPerCell, kPerWord = Of::kPerWord;
  static constexpr int kTested = 4;                           // channels
  static constexpr int kFewPixels = 2 * kMmaColumns;          // computed 8 at a time
  static constexpr int kTakers = kShares ? kRepairWarps : 1;  // of a piece's steps

 public:
  __device__ __forceinline__ Repairer(const Arguments& args, RepairShared& shared)
      : args_(args),
        shared_(shared),
        warp_(static_cast<int32_t>(threadIdx.x) / 32),
        lane_(static_cast<int32_t>(threadIdx.x) % 32),
        own_h_(args.own_taps_h({0, 0}).count),
        own_w_(args.own_taps_w({0, 0}).count) {
    locate_steps(0);
  }

  // `sums`: the math warp's of a tile, counted over all tiles.
  __device__ __forceinline__ void run(uint64_t sums, int32_t piece) {
    const TilePosition tile(args_, static_cast<uint32_t>(sums / kMathWarps));
    const int32_t math_group = static_cast<int32_t>(sums % kMathWarps) / 4;
    group_ = tile.group;
    first_row_ = tile.first_row(args_, math_group) + static_cast<int32_t>(sums % 4) * kWarpRows;
    const auto share = [&](Share axis, int32_t size) {
      return args_.share == axis ? math_group * size : 0;
    };
    const int32_t pixel = piece * kPiecePixels + lane_;
    const int32_t line = args_.columns_div.quotient(pixel);
    const int32_t image = args_.rows_div.quotient(line);
    output_.n = tile.image + share(Share::kImages, args_.group_images) + image;
    output_.p = tile.h + share(Share::kRows, args_.group_rows) + line - image * args_.group_rows;
    output_.q =
        tile.w + share(Share::kColumns, args_.group_columns) + pixel - line * args_.group_columns;
    output_.exists = image < args_.group_images && output_.n < args_.images &&
                     output_.p < args_.h.outputs && output_.q < args_.w.outputs;
    const int32_t end =
        min(args_.folded.at(first_row_ + kWarpRows - 1).fold + 1, args_.folded.count);
#pragma unroll 1
    for (int32_t fold = args_.folded.at(first_row_).fold; fold < end; ++fold) {
      // Rows of several outputs have no more than 8 channels.
      const int32_t row = max(first_row_, fold << args_.folded.shift);
      const int32_t count = find(args_.folded.at(row));
      if (count > kFewPixels) {
        repair<kMmas>(row, 0, count);
        continue;
      }
#pragma unroll 1
      for (int32_t i = 0; i < count; i += kMmaColumns) {
        repair<1>(row, i, min(count - i, kMmaColumns));
      }
    }
  }

 private:
  struct Output {
    int32_t n, p, q;
    bool exists;
  };

  // Of the warp's steps from `first` on, counted over those that it takes.
  __device__ __forceinline__ void locate_steps(int32_t first) {
    located_ = first;
    const int32_t step = (first + lane_) * kTakers + (kShares ? warp_ : 0);
    const int32_t line = step / own_w_, column = step - line * own_w_;
    const int32_t chunk = line / own_h_, row = line - chunk * own_h_;
    RepairStep located;
    located.down = row * args_.h.shift_step;
    located.right = column * args_.w.shift_step;
    located.source = int64_t{chunk} * kChunk * args_.source_c +
                     located.down * int64_t{args_.source_h} + located.right;
    located.packed = (chunk * args_.h.taps + row) * args_.w.taps + column;
    located.channels = max(args_.channels - chunk * kChunk, 0);
    __syncwarp();
    shared_.steps[warp_][lane_] = located;
    __syncwarp();
  }

  // Puts the pixels that are to be computed side by side, and returns their number. The zeros of
  // a fold are the same in all channels: what they make NaN is so in all.
  __device__ __forceinline__ int32_t find(const FoldedRows::Row& row) const {
    const auto [n, p, q, may_exist] = output_;
    const bool exists = may_exist && row.channel < args_.rows && args_.folded.has(row, p, q);
    const int64_t at = n * args_.destination_n + row.fold * args_.folded.step +
                       int64_t{group_} * args_.rows * args_.destination_c +
                       p * int64_t{args_.destination_h} + q * int64_t{args_.destination_w};
    const T* result =
        static_cast<const T*>(args_.destination) + at + row.channel * args_.destination_c;
    float tested[kTested];
#pragma unroll
    for (int i = 0; i < kTested; ++i) {
      tested[i] = cuda::std::numeric_limits<float>::quiet_NaN();
      if (exists && row.channel + i < args_.rows) tested[i] = Of::to_float(*result);
      result += args_.destination_c;
    }
    bool found = exists;
#pragma unroll
    for (const float value : tested) found = found && isnan(value);
    const uint32_t all = __ballot_sync(~0u, found);
    __syncwarp();  // the pixels before have been read
    if (found) {
      const int32_t y = args_.h.met_by(p, args_.own_taps_h(row).first);
      const int32_t x = args_.w.met_by(q, args_.own_taps_w(row).first);
      const int64_t source = n * args_.source_n +
                             int64_t{group_} * args_.channels * args_.source_c +
                             y * int64_t{args_.source_h} + x;
      shared_.pixels[warp_][__popc(all & ((1u << lane_) - 1))] = {source, y, x, at};
    }
    __syncwarp();
    return __popc(all);
  }

  // Some of the pixels that were found. `first`: the first of the warp's rows that belongs to them.
  // kCount: of matrix instructions, for 8 pixels each.
  template <int kCount>
  __device__ __forceinline__ void repair(int32_t first, int32_t first_pixel, int32_t count) {
    const RepairedPixel* const pixels = shared_.pixels[warp_] + first_pixel;
    float sums[kCount][4];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool wanted = has(first, row_of(j)) && column_of(i, j) < count;
        sums[i][j] = wanted ? 0 : cuda::std::numeric_limits<float>::quiet_NaN();
      }
    }
    add(first, pixels, count, sums);
    if constexpr (kCount == 1 && !kShares) {
      store_few(first, pixels, count, sums[0]);
    } else {
      WarpSums* const all_sums = shared_.sums;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) all_sums[warp_].at[row_of(j)][column_of(i, j)] = sums[i][j];
      }
      if constexpr (kShares) {
        constexpr int kRows = kWarpRows / kRepairWarps;
        __syncthreads();
        store(first, pixels, count, warp_ * kRows, (warp_ + 1) * kRows, [&](int32_t row) {
          float sum = 0;
#pragma unroll
          for (int i = 0; i < kRepairWarps; ++i) sum += all_sums[i].at[row][lane_];
          return sum;
        });
        __syncthreads();  // the next sums come to the same place
      } else {
        __syncwarp();
        store(first, pixels, count, 0, kWarpRows,
              [&](int32_t row) { return all_sums[warp_].at[row][lane_]; });
        __syncwarp();
      }
    }
  }

  // The warp's row and the pixel of a thread's sum j of a matrix instruction.
  __device__ __forceinline__ int32_t row_of(int32_t j) const { return j / 2 * 8 + lane_ / 4; }
  __device__ __forceinline__ int32_t column_of(int32_t instruction, int32_t j) const {
    return instruction * kMmaColumns + lane_ % 4 * 2 + j % 2;
  }
  // Whether a row of the warp belongs to the pixels.
  __device__ __forceinline__ bool has(int32_t first, int32_t row) const {
    const FoldedRows::Row at = args_.folded.at(first_row_ + row);
    return at.fold == args_.folded.at(first).fold && at.channel < args_.rows;
  }

  // Adds all products, or some of them once all sums that are wanted are NaN.
  template <int kCount>
  __device__ __forceinline__ void add(int32_t first, const RepairedPixel* pixels, int32_t count,
                                      float (&sums)[kCount][4]) {
    // Steps whose operands are on the way, as many as there are registers for.
    constexpr int kAtOnce = kCount == 1 ? 9 : 4 / kPerWord;
    const FoldedRows::Row row = args_.folded.at(first);
    const T* source[kCount];
    int32_t y[kCount], x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int32_t column = i * kMmaColumns + lane_ / 4;
      const RepairedPixel& pixel = pixels[min(column, count - 1)];
      source[i] = static_cast<const T*>(args_.source) + pixel.source +
                  lane_ % 4 * kPerWord * args_.source_c;
      y[i] = pixel.y;
      x[i] = pixel.x;
      if (column >= count) y[i] = INT32_MIN / 2;  // beyond all taps
    }
    const int64_t row_group =
        int64_t{group_} * args_.packed_row_groups() + first_row_ / kRowsOfGroup;
    const int64_t first_step = row_group * args_.packed_steps +
                               args_.own_taps_h(row).first * args_.w.taps +
                               args_.own_taps_w(row).first;
    const auto* const packed = static_cast<const uint4*>(args_.packed) + first_step * 128 +
                               first_row_ % kRowsOfGroup * 2 + lane_;
    // Of all warps that share the piece.
    const int32_t steps = (args_.chunks * own_h_ * own_w_ + kTakers - 1) / kTakers;
#pragma unroll 1
    for (int32_t next = 0; next < steps; next += kAtOnce) {
      Pixel values[kAtOnce][kCount][2 * kPerWord];
      float weights[kAtOnce][4];
      if (next < located_ || next + kAtOnce > located_ + kLocatedSteps) locate_steps(next);
      const uint32_t located = shared_address(shared_.steps[warp_] + (next - located_));
#pragma unroll
      for (int t = 0; t < kAtOnce; ++t) {
        RepairStep step;
        step.load(located + t * static_cast<uint32_t>(sizeof(RepairStep)));
        load_global(reinterpret_cast<const float*>(packed + int64_t{step.packed} * 128), weights[t],
                    step.channels > 0);
        const int32_t channels = step.channels - lane_ % 4 * kPerWord;
#pragma unroll
        for (int k = 0; k < kCount; ++k) {
          const bool inside =
              static_cast<uint32_t>(y[k] + step.down) <
                  static_cast<uint32_t>(args_.h.source_size) &&
              static_cast<uint32_t>(x[k] + step.right) < static_cast<uint32_t>(args_.w.source_size);
          const T* const from = source[k] + step.source;
#pragma unroll
          for (int c = 0; c < 2 * kPerWord; ++c) {
            const int32_t channel = c / kPerWord * Of::kPerCell + c % kPerWord;
            Of::template load<false>(from + channel * args_.source_c, values[t][k][c],
                                     inside && channel < channels);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kAtOnce; ++t) {
#pragma unroll
        for (int k = 0; k < kCount; ++k) multiply(weights[t], values[t][k], sums[k]);
      }
      if (all_are_nan(sums)) return;
    }
  }

  static __device__ __forceinline__ void multiply(const float (&weights)[4],
                                                  const Pixel (&values)[2 * kPerWord],
                                                  float (&sums)[4]) {
    const uint4 packed = {__float_as_uint(weights[0]), __float_as_uint(weights[1]),
                          __float_as_uint(weights[2]), __float_as_uint(weights[3])};
    uint32_t words[2][Of::kTerms];
#pragma unroll
    for (int i = 0; i < 2; ++i) Of::words(values, i, 0, false, words[i]);
    if constexpr (Of::kTerms == 1) {
      multiply_words(packed, words[0][0], words[1][0], sums);
    } else {
      // As precise_mainloop.cuh does, each step by itself.
      uint4 high, low;
      Of::split(packed, high, low);
      float products[4] = {};
      multiply_words(low, words[0][0], words[1][0], products);
      multiply_words(high, words[0][1], words[1][1], products);
      multiply_words(high, words[0][0], words[1][0], products);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += products[i];
    }
  }

  static __device__ __forceinline__ void multiply_words(const uint4& weights, uint32_t first,
                                                        uint32_t second, float (&sums)[4]) {
    const uint32_t a[4] = {weights.x, weights.y, weights.z, weights.w};
    const uint32_t b[2] = {first, second};
    multiply_add<Product>(sums, a, b);
  }

  // Of the warp.
  template <int kCount>
  static __device__ __forceinline__ bool all_are_nan(const float (&sums)[kCount][4]) {
    float least = sums[0][0];  // of what is not NaN
#pragma unroll
    for (int i = 1; i < kCount * 4; ++i) least = fminf(least, sums[i / 4][i % 4]);
    return __all_sync(~0u, isnan(least));
  }

  // Writes up to 8 pixels from the registers in which the matrix instruction leaves them.
  __device__ __forceinline__ void store_few(int32_t first, const RepairedPixel* pixels,
                                            int32_t count, const float (&sums)[4]) const {
    const Fusion& fusion = args_.fusion;
    int64_t at[4];
    float bias[4], scale[4], shift[4], residual[4];
    bool wanted[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int32_t row = row_of(j), column = column_of(0, j);
      const int32_t row_channel = args_.folded.at(first_row_ + row).channel;
      const int64_t channel = int64_t{group_} * args_.rows + row_channel;
      wanted[j] = column < count && has(first, row);
      at[j] = pixels[min(column, count - 1)].destination + row_channel * args_.destination_c;
      bias[j] = value_of(args_.bias, channel, wanted[j], -0.0f);
      scale[j] = value_of(fusion.scale, channel, wanted[j], 1);
      shift[j] = value_of(fusion.shift, channel, wanted[j], -0.0f);
      residual[j] = value_of(fusion.residual, at[j], wanted[j], -0.0f);
    }
    with_activation(fusion.activation, [&](auto activation) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float values[1] = {
            activation((sums[j] + bias[j]) * scale[j] + shift[j] + residual[j])};
        Of::store(static_cast<T*>(args_.destination) + at[j], values, wanted[j]);
      }
    });
  }

  // Writes rows of the warp, a pixel by each lane, with one switch over activations for all of
  // them. sum_of(row): the lane's sum.
  template <class Body>
  __device__ __forceinline__ void store(int32_t first, const RepairedPixel* pixels, int32_t count,
                                        int32_t first_row, int32_t end, Body sum_of) const {
    const Fusion& fusion = args_.fusion;
    // Each lane has the terms of one of the rows.
    const int32_t own_row = lane_ % kWarpRows;
    const int64_t own_channel =
        int64_t{group_} * args_.rows + args_.folded.at(first_row_ + own_row).channel;
    const bool has_own = has(first, own_row);
    const float own_bias = value_of(args_.bias, own_channel, has_own, -0.0f);
    const float own_scale = value_of(fusion.scale, own_channel, has_own, 1);
    const float own_shift = value_of(fusion.shift, own_channel, has_own, -0.0f);
    const bool has_pixel = lane_ < count;
    const int64_t pixel_at = has_pixel ? pixels[lane_].destination : 0;
    with_activation(fusion.activation, [&](auto activation) {
#pragma unroll 2
      for (int32_t row = first_row; row < end; ++row) {
        const float bias = __shfl_sync(~0u, own_bias, row);
        const float scale = __shfl_sync(~0u, own_scale, row);
        const float shift = __shfl_sync(~0u, own_shift, row);
        const bool wanted = has_pixel && has(first, row);
        const int64_t at =
            pixel_at + args_.folded.at(first_row_ + row).channel * args_.destination_c;
        const float values[1] = {activation((sum_of(row) + bias) * scale + shift +
                                            value_of(fusion.residual, at, wanted, -0.0f))};
        Of::store(static_cast<T*>(args_.destination) + at, values, wanted);
      }
    });
  }

  static __device__ __forceinline__ float value_of(const void* values, int64_t index, bool wanted,
                                                   float otherwise) {
    if (values == nullptr || !wanted) return otherwise;
    return Of::to_float(static_cast<const T*>(values)[index]);
  }

  const Arguments& args_;
  RepairShared& shared_;
  const int32_t warp_, lane_;
  const int32_t own_h_, own_w_;  // taps of a row
  int32_t located_;              // the first of the steps that are located
  int32_t group_;                // of the problem
  int32_t first_row_;            // of the group's accumulators
  Output output_;                // the lane's
};

}  // namespace haloconv::halo
