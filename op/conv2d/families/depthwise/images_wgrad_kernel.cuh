// wgrad of groups with one channel, channels innermost, by eights of images: images.h.
//
// What a block does in each step of its way:
//
//   send for a later step's rows                  (images_rows.cuh)
//   move the next step's to planes of channels
//   multiply this one's
//   wait for all warps
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "conv2d/families/depthwise/images_rows.cuh"
#include "cuda/mma_half_depth.cuh"

namespace haloconv::depthwise {

// What a warp multiplies and has summed, of its two channels.
template <class T, class Filter>
class ImagesSums {
 public:
  static constexpr int kTaps = Filter::kTaps, kStep = Filter::kStep, kPairs = Filter::kPairs;

  // `planes`: of the first step; `ones`: kOnesBytes of them.
  __device__ __forceinline__ ImagesSums(uint32_t planes, uint32_t ones) {
    const int32_t column = lane() % 16, row = lane() / 16;
    const int32_t first_channel = warp() * 2;
    const bool has_ones = column == kInputColumns - 1;
    source_at_ =
        has_ones ? ones + 16 * column
                 : planes + row * kInputRowBytes + 16 * (first_channel * kInputColumns + column);
    moving_ = has_ones ? 0 : ~0u;
    const int32_t matrix = lane() / 8, channel = first_channel + matrix / 2;
    grads_at_ = planes + Filter::kGradsAt + matrix % 2 * kGradRowBytes +
                16 * (channel * kGradColumns + plane_pixel(lane() % 8, channel));
  }

  static __device__ __forceinline__ int32_t warp() {
    return static_cast<int32_t>(threadIdx.x) / 32;
  }
  static __device__ __forceinline__ int32_t lane() {
    return static_cast<int32_t>(threadIdx.x) % 32;
  }

  // The input's rows that a step brings, from its planes, which lie so far from the first step's.
  __device__ __forceinline__ void load(uint32_t planes) {
#pragma unroll
    for (auto& pairs : source_) {
#pragma unroll
      for (int i = 0; i + kStep < kPairs; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) pairs[i][j] = pairs[i + kStep][j];
      }
    }
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const uint32_t at = source_at_ + ((planes + i * 2 * kInputRowBytes) & moving_);
      load_matrices(at, source_[0][kPairs - kStep + i]);
      // The next channel's columns lie in another order: plane_pixel().
      load_matrices((at ^ 64) + kInputColumns * 16, source_[1][kPairs - kStep + i]);
    }
  }

  // Adds a pair of rows of outputs, or the first of them alone: the zeros of one that does not
  // exist would make NaN of an infinity.
  __device__ __forceinline__ void multiply(uint32_t planes, bool both_rows) {
    uint32_t grads[4];  // of the first channel both rows, of the second
    load_matrices(grads_at_ + planes, grads);
    if (both_rows) {
#pragma unroll
      for (int r = 0; r < kTaps; ++r) {
#pragma unroll
        for (int channel = 0; channel < 2; ++channel) multiply_both(channel, r, grads);
      }
    } else {
#pragma unroll
      for (int r = 0; r < kTaps; ++r) {
#pragma unroll
        for (int channel = 0; channel < 2; ++channel) multiply_row(channel, r, 0, grads);
      }
    }
  }

  // Forgets columns of outputs from a first on: they do not exist.
  __device__ __forceinline__ void forget(int32_t first) {
#pragma unroll
    for (auto& rows : sums_) {
#pragma unroll
      for (auto& sums : rows) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (lane() % 4 * 2 + i % 2 >= first) sums[i] = 0;
        }
      }
    }
  }

  // To shared memory: (warp, row of the filter, column of the input, of the gradient).
  static constexpr int kFloats = kTaps * kInputColumns * kGradColumns;  // of a warp
  __device__ __forceinline__ void put(int channel, float* to) const {
    float* const own = to + lane() / 4 * kGradColumns + lane() % 4 * 2;
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        own[(r * kInputColumns + i / 2 * 8) * kGradColumns + i % 2] = sums_[channel][r][i];
      }
    }
  }

 private:
  // By row r of the filter, one of two rows of outputs.
  __device__ __forceinline__ void multiply_row(int channel, int r, int output,
                                               const uint32_t (&grads)[4]) {
    const int row = r + output * kStep;
    const uint32_t* const pixels = &source_[channel][row / 2][row % 2 * 2];
    multiply_add_half_depth<T>(sums_[channel][r], pixels[0], pixels[1],
                               grads[channel * 2 + output]);
  }
  __device__ __forceinline__ void multiply_both(int channel, int r, const uint32_t (&grads)[4]) {
    if constexpr (kStep == 1) {
      if (r % 2 == 0) {  // an instruction takes neighbouring registers
        const uint32_t of_channel[2] = {grads[channel * 2], grads[channel * 2 + 1]};
        return multiply_add<T>(sums_[channel][r], source_[channel][r / 2], of_channel);
      }
    }
    multiply_row(channel, r, 0, grads);
    multiply_row(channel, r, 1, grads);
  }

  uint32_t source_at_, moving_, grads_at_;
  uint32_t source_[2][kPairs][4] = {};
  float sums_[2][kTaps][4] = {};
};

// Adds the products of columns that a tap has apart, of one channel, in a fixed order.
template <class Filter, class T>
__device__ __forceinline__ void write_images_sums(const ImagesArguments<T>& args, const float* sums,
                                                  float* to) {
  const Images& d = args.shape;
  for (int32_t i = static_cast<int32_t>(threadIdx.x) % 32; i < args.columns; i += 32) {
    const bool is_bias = i == Filter::kTaps * Filter::kTaps;
    const int32_t r = is_bias ? 0 : i / Filter::kTaps;
    const int32_t first = is_bias ? kInputColumns - 1 : i - r * Filter::kTaps;
    const int32_t step = is_bias ? 0 : Filter::kStep;
    float sum = 0;
    for (int32_t grad = 0; grad < d.segment_columns; ++grad) {
      sum += sums[(r * kInputColumns + first + grad * step) * kGradColumns + grad];
    }
    to[i] = sum;
  }
}

template <class T, int kTaps, int kStep>
__global__ void __launch_bounds__(kImageThreads, images_resident(kTaps, kStep))
    depthwise_images_wgrad_kernel(const __grid_constant__ ImagesArguments<T> args) {
#if __CUDA_ARCH__ >= 800
  using Filter = ImagesFilter<kTaps, kStep>;
  using Sums = ImagesSums<T, Filter>;
  const Images& d = args.shape;
  extern __shared__ __align__(128) unsigned char depthwise_images_shared[];
  const uint32_t raw = shared_address(depthwise_images_shared);
  const uint32_t planes = raw + kRawSteps * Filter::kStepBytes;
  const uint32_t ones = planes + kPlaneSteps * Filter::kStepBytes;
  if (threadIdx.x < kOnesBytes / 4) {
    constexpr uint32_t kOne = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;
    store_shared_bits(ones + threadIdx.x * 4, kOne);
  }

  const int32_t first = ImagesBlock(d, static_cast<int32_t>(blockIdx.x)).split * args.split_tiles;
  typename Filter::Walk walk(d, first, min(first + args.split_tiles, d.tiles));
  ImagesCopies<T, Filter> copies(args);
  const ImagesMoves<Filter> moves;
  Sums sums(planes, ones);

  // The kinds of four steps, the one that is to be multiplied first.
  uint32_t kinds = 0;
  const auto send = [&](uint32_t to) {
    kinds >>= 8;
    if (!walk.is_done()) {
      copies.send(args, walk, to);
      kinds |= walk.kind(d) << 24;
      walk.advance(d);
    }
    commit_copies();
  };
  // Where rows are sent to, and then those that are moved.
  uint32_t raw_at = (kRawSteps - 1) * Filter::kStepBytes;
  uint32_t planes_at = 0;  // where rows are moved to
  const auto begin_step = [&] {
    wait_for_groups<kRawSteps - 2>();
    __syncthreads();
    send(raw + raw_at);
    raw_at = raw_at == (kRawSteps - 1) * Filter::kStepBytes ? 0 : raw_at + Filter::kStepBytes;
    moves.move(raw + raw_at, planes + planes_at);
    planes_at = Filter::kStepBytes - planes_at;
  };
  for (int i = 0; i < kRawSteps - 1; ++i) send(raw + i * Filter::kStepBytes);
  begin_step();
  while ((kinds & 0xff00) != 0) {
    const uint32_t from = Filter::kStepBytes - planes_at;
    begin_step();
    sums.load(from);
    if ((kinds & ImagesStep::kHasOutputs) != 0) {
      sums.multiply(from, (kinds & ImagesStep::kHasBothRows) != 0);
    }
    const uint32_t columns = kinds & ImagesStep::kColumns;
    if (columns != 0) sums.forget(static_cast<int32_t>(columns));
  }

  __syncthreads();
  const ImagesBlock block(d, static_cast<int32_t>(hidden(blockIdx.x)));
  float* const own =
      reinterpret_cast<float*>(depthwise_images_shared) + Sums::warp() * Sums::kFloats;
  static_assert(kImageWarps * Sums::kFloats * 4 <= images_shared_bytes(kStep));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t channel = block.first_channel + Sums::warp() * 2 + i;
    if (channel >= d.channels.divisor) continue;
    sums.put(i, own);
    __syncwarp();
    write_images_sums<Filter>(
        args, own,
        args.partial + (int64_t{block.split} * d.channels.divisor + channel) * args.columns);
    __syncwarp();
  }
#endif
}

}  // namespace haloconv::depthwise
