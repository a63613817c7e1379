#include "conv2d/families/halo/repair.h"

#include <cuda/std/limits>
#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/tile_order.cuh"
#include "cuda/check.h"
#include "cuda/mma.cuh"

namespace haloconv::halo {

namespace {

constexpr int kRepairThreads = 256, kRepairBlocks = 2;  // of a multiprocessor
constexpr int kRepairWarps = kRepairThreads / 32;
constexpr int kPiecePixels = 32;  // of a math warp's tile, looked at together, one by each lane
constexpr int kWarpRows = 16;     // of the accumulators: a math warp's
constexpr int kMmaColumns = 8;    // of a warp's matrix instruction
constexpr int kMmas = kPiecePixels / kMmaColumns;

// A pixel to compute.
struct RepairedPixel {
  int64_t source;       // elements to the source's pixel that output's first tap meets
  int32_t y, x;         // of that pixel, which may lie beside the source
  int64_t destination;  // elements to the output, of the group's first channel
};

// By rows and pixels, with a pitch by which the sums of a matrix instruction meet no bank twice.
struct WarpSums {
  float at[kWarpRows][kPiecePixels + 8];
};

// Computes what is NaN of a piece: 16 rows of a tile's accumulators, of 32 pixels. The pixels that
// are NaN are the columns of the warp's matrix instruction, side by side, and the packed weights
// its rows; the taps are the rows' own, so that nothing meets another output's pixels. Of rows of
// 8 channels those of two outputs are computed one after the other.
//
// kShares: all warps of a block compute the same piece, each from some of the source's chunks.
template <class T, bool kShares>
class Repairer {
  using Of = Element<T>;
  using Product = std::conditional_t<sizeof(T) == 4, float, T>;  // of the matrix instruction
  using Pixel = typename Of::template Pixels<1>;
  static constexpr int kChunk = 2 * Of::kPerCell, kPerWord = Of::kPerWord;
  static constexpr int kTested = 4;  // channels

 public:
  __device__ __forceinline__ Repairer(const Arguments& args, uint64_t sums, int32_t piece)
      : args_(args),
        tile_(args, static_cast<uint32_t>(sums / kMathWarps)),
        math_group_(static_cast<int32_t>(sums % kMathWarps) / 4),
        first_row_(tile_.first_row(args, math_group_) + static_cast<int32_t>(sums % 4) * kWarpRows),
        piece_(piece),
        warp_(static_cast<int32_t>(threadIdx.x) / 32),
        lane_(static_cast<int32_t>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void run() const {
    __shared__ RepairedPixel all_pixels[kRepairWarps][kPiecePixels];
    __shared__ WarpSums all_sums[kRepairWarps];
    RepairedPixel* const pixels = all_pixels[warp_];
    const int32_t end =
        min(args_.folded.at(first_row_ + kWarpRows - 1).fold + 1, args_.folded.count);
#pragma unroll 1
    for (int32_t fold = args_.folded.at(first_row_).fold; fold < end; ++fold) {
      // Rows of several outputs have no more than 8 channels.
      const int32_t row = max(first_row_, fold << args_.folded.shift);
      const int32_t count = find(args_.folded.at(row), pixels);
      if (count > kMmaColumns) {
        repair<kMmas>(row, pixels, count, all_sums);
      } else if (count > 0) {
        repair<1>(row, pixels, count, all_sums);
      }
    }
  }

 private:
  // Puts the pixels that are to be computed side by side, and returns their number. The zeros of
  // a fold are the same in all channels: what they make NaN is so in all.
  __device__ __forceinline__ int32_t find(const FoldedRows::Row& row, RepairedPixel* pixels) const {
    const auto share = [&](Share axis, int32_t size) {
      return args_.share == axis ? math_group_ * size : 0;
    };
    const int32_t pixel = piece_ * kPiecePixels + lane_;
    const int32_t line = args_.columns_div.quotient(pixel);
    const int32_t image = args_.rows_div.quotient(line);
    const int32_t n = tile_.image + share(Share::kImages, args_.group_images) + image;
    const int32_t p =
        tile_.h + share(Share::kRows, args_.group_rows) + line - image * args_.group_rows;
    const int32_t q =
        tile_.w + share(Share::kColumns, args_.group_columns) + pixel - line * args_.group_columns;
    const bool exists = image < args_.group_images && n < args_.images && p < args_.h.outputs &&
                        q < args_.w.outputs && row.channel < args_.rows &&
                        args_.folded.has(row, p, q);
    const int64_t at = n * args_.destination_n + row.fold * args_.folded.step +
                       int64_t{tile_.group} * args_.rows * args_.destination_c +
                       p * int64_t{args_.destination_h} + q * int64_t{args_.destination_w};
    const T* const results = static_cast<const T*>(args_.destination) + at;
    float tested[kTested];
#pragma unroll
    for (int i = 0; i < kTested; ++i) {
      tested[i] = cuda::std::numeric_limits<float>::quiet_NaN();
      const int32_t channel = row.channel + i;
      if (exists && channel < args_.rows) {
        tested[i] = Of::to_float(results[channel * args_.destination_c]);
      }
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
                             int64_t{tile_.group} * args_.channels * args_.source_c +
                             y * int64_t{args_.source_h} + x;
      pixels[__popc(all & ((1u << lane_) - 1))] = {source, y, x, at};
    }
    __syncwarp();
    return __popc(all);
  }

  // `first`: the first of the warp's rows that belongs to these pixels. kCount: of matrix
  // instructions, for 8 pixels each.
  template <int kCount>
  __device__ __forceinline__ void repair(int32_t first, const RepairedPixel* pixels, int32_t count,
                                         WarpSums* all_sums) const {
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
                                      float (&sums)[kCount][4]) const {
    // Taps whose operands are on the way, as many as there are registers for.
    constexpr int kAtOnce = kCount == 1 ? 9 : 4 / kPerWord;
    const FoldedRows::Row row = args_.folded.at(first);
    const OwnTaps h = args_.own_taps_h(row), w = args_.own_taps_w(row);
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
        int64_t{tile_.group} * args_.packed_row_groups() + first_row_ / kRowsOfGroup;
    const auto* const packed = static_cast<const uint4*>(args_.packed) +
                               row_group * args_.packed_steps * 128 +
                               first_row_ % kRowsOfGroup * 2 + lane_;
    constexpr int kStep = kShares ? kRepairWarps : 1;
    int32_t chunk = kShares ? warp_ : 0, i = 0, j = 0;
#pragma unroll 1
    while (chunk < args_.chunks) {
      Pixel values[kAtOnce][kCount][2 * kPerWord];
      float weights[kAtOnce][4];
#pragma unroll
      for (int t = 0; t < kAtOnce; ++t) {
        const bool has_tap = chunk < args_.chunks;
        const int32_t step = (chunk * args_.h.taps + h.first + i) * args_.w.taps + w.first + j;
        load_global(reinterpret_cast<const float*>(packed + int64_t{step} * 128), weights[t],
                    has_tap);
        const int32_t down = i * args_.h.shift_step, right = j * args_.w.shift_step;
        const int64_t offset =
            int64_t{chunk} * kChunk * args_.source_c + down * int64_t{args_.source_h} + right;
        const int32_t channels = args_.channels - chunk * kChunk - lane_ % 4 * kPerWord;
#pragma unroll
        for (int k = 0; k < kCount; ++k) {
          const bool inside =
              has_tap &&
              static_cast<uint32_t>(y[k] + down) < static_cast<uint32_t>(args_.h.source_size) &&
              static_cast<uint32_t>(x[k] + right) < static_cast<uint32_t>(args_.w.source_size);
#pragma unroll
          for (int c = 0; c < 2 * kPerWord; ++c) {
            const int32_t channel = c / kPerWord * Of::kPerCell + c % kPerWord;
            Of::template load<false>(source[k] + offset + channel * args_.source_c, values[t][k][c],
                                     inside && channel < channels);
          }
        }
        if (++j == w.count) {
          j = 0;
          if (++i == h.count) {
            i = 0;
            chunk += kStep;
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

  // Writes rows of the warp, a pixel by each lane, with one switch over activations for all of
  // them. sum_of(row): the lane's sum.
  template <class Body>
  __device__ __forceinline__ void store(int32_t first, const RepairedPixel* pixels, int32_t count,
                                        int32_t first_row, int32_t end, Body sum_of) const {
    const Fusion& fusion = args_.fusion;
    const auto load = [](const void* values, int64_t index, bool wanted, float otherwise) {
      if (values == nullptr || !wanted) return otherwise;
      return Of::to_float(static_cast<const T*>(values)[index]);
    };
    // Each lane has the terms of one of the rows.
    const int32_t own_row = lane_ % kWarpRows;
    const int64_t own_channel =
        int64_t{tile_.group} * args_.rows + args_.folded.at(first_row_ + own_row).channel;
    const bool has_own = has(first, own_row);
    const float own_bias = load(args_.bias, own_channel, has_own, -0.0f);
    const float own_scale = load(fusion.scale, own_channel, has_own, 1);
    const float own_shift = load(fusion.shift, own_channel, has_own, -0.0f);
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
                                            load(fusion.residual, at, wanted, -0.0f))};
        Of::store(static_cast<T*>(args_.destination) + at, values, wanted);
      }
    });
  }

  const Arguments& args_;
  const TilePosition tile_;
  const int32_t math_group_;
  const int32_t first_row_;  // of the group's accumulators
  const int32_t piece_, warp_, lane_;
};

// Lanes look at marks of pieces side by side; then all warps, or all blocks if kShares, take pieces
// in turns, so that those of one tile are shared out.
template <class T, bool kShares>
__global__ void __launch_bounds__(kRepairThreads, kRepairBlocks)
    repair_kernel(const __grid_constant__ Arguments args) {
  if (*args.has_marks == 0) return;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const uint64_t takers = kShares ? gridDim.x : gridDim.x * kRepairWarps;
  const uint64_t taker = kShares ? blockIdx.x : blockIdx.x * kRepairWarps + thread / 32;
  const int32_t pixels = args.group_images * args.group_rows * args.group_columns;
  const auto pieces = static_cast<uint32_t>((pixels + kPiecePixels - 1) / kPiecePixels);
  const uint64_t count = uint64_t{args.tiles} * kMathWarps * pieces;
#pragma unroll 1
  for (uint64_t first = taker; first < count; first += 32 * takers) {
    const uint64_t own = first + thread % 32 * takers;
    const NonfiniteMark mark = mark_of(own / pieces);
    const bool is_marked = own < count && (args.marks[mark.word] & mark.bit) != 0;
#pragma unroll 1
    for (uint32_t left = __ballot_sync(~0u, is_marked); left != 0; left &= left - 1) {
      const uint64_t index = first + (__ffs(static_cast<int32_t>(left)) - 1) * takers;
      const uint64_t sums = index / pieces;
      Repairer<T, kShares>(args, sums, static_cast<int32_t>(index - sums * pieces)).run();
    }
  }
}

}  // namespace

template <class T>
void launch_repair(const Arguments& args, int multiprocessors, cudaStream_t stream) {
  const bool shares = args.chunks >= kRepairWarps;  // each warp of a block has some
  const auto kernel = shares ? repair_kernel<T, true> : repair_kernel<T, false>;
  const auto blocks = static_cast<unsigned>(multiprocessors * kRepairBlocks);
  kernel<<<blocks, kRepairThreads, 0, stream>>>(args);
  check_launch("halo repair");
}

template void launch_repair<float>(const Arguments&, int, cudaStream_t);
template void launch_repair<PreciseFloat>(const Arguments&, int, cudaStream_t);
template void launch_repair<__half>(const Arguments&, int, cudaStream_t);
template void launch_repair<__nv_bfloat16>(const Arguments&, int, cudaStream_t);

}  // namespace haloconv::halo
