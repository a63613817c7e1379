// A block's rows of the input and of the output's gradient, from global memory to planes of
// channels in shared memory, in which 16 bytes are a pixel of eight images.
//
// They come as they lie in memory: 16 bytes are 8 channels of a pixel of one image. Of four pixels
// of eight images, an instruction that transposes 8 x 8 matrices gives each lane one channel of one
// pixel, all images:
//
//   matrix m, row 2 * t + e:  pixel t, image 2 * m + e        lane 4 * c + t:  pixel t, channel c,
//                                                             images 2 * m and the next in word m
//
// Raw rows:  [row][pair of images][pixel][image][8 channels]
// Planes:    [row][channel][pixel]
//
// So all of a block's channels of a pixel, which come from memory in one piece, stay side by side:
// apart they took up to 1.4 times as long. Their order depends on the pixel, and that of pixels on
// the channel, so that what lanes side by side store or load meets each bank of shared memory once.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_words.cuh"
#include "conv2d/families/depthwise/images_arguments.cuh"
#include "conv2d/families/depthwise/images_walk.h"
#include "cuda/copy_async.cuh"
#include "cuda/mma.cuh"

namespace haloconv::depthwise {

// What the kernels for a filter have in common.
template <int kTaps_, int kStep_>
struct ImagesFilter {
  static constexpr int kTaps = kTaps_, kStep = kStep_;
  static constexpr int kPairs = image_pairs(kTaps, kStep);
  static constexpr int kLead = image_lead(kTaps, kStep);
  static constexpr int kStepBytes = image_step_bytes(kStep);
  static constexpr int kGradsAt = 2 * kStep * kInputRowBytes;  // of a step's bytes
  // Fours of a segment's columns of the input.
  static constexpr int kFours = ((most_segment_columns(kTaps, kStep) - 1) * kStep + kTaps + 3) / 4;
  using Walk = ImagesWalk<kLead>;
};

__device__ __forceinline__ void store_shared_words(uint32_t at, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

// Where eight channels lie among those of a pixel that came side by side.
__device__ __forceinline__ int32_t raw_eight(int32_t eight, int32_t pixel) {
  return eight ^ (pixel / 2 % 2);
}
// Where a pixel lies among eight of a channel's planes.
__device__ __forceinline__ int32_t plane_pixel(int32_t pixel, int32_t channel) {
  return pixel ^ (channel % 2 * 4);
}

// 16 bytes, of which the first `inside` are read and the others become zeros. All of their line of
// memory is brought to L2, since other blocks read the rest of it: up to 0.86 of the time.
__device__ __forceinline__ void copy_line_async(uint32_t to, const void* from, int32_t inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside)
               : "memory");
}

// A block's first channel, and its number among those of the same channels.
struct ImagesBlock {
  int32_t split, first_channel;

  __device__ __forceinline__ ImagesBlock(const Images& d, int32_t block)
      : split(d.channel_tiles.quotient(block)),
        first_channel((block - split * d.channel_tiles.divisor) * kImageChannels) {}
};

// Sends for rows. A thread has 8 channels of one column and image.
template <class T, class Filter>
class ImagesCopies {
 public:
  __device__ __forceinline__ explicit ImagesCopies(const ImagesArguments<T>& args) {
    const Thread at;
    is_mine_ = at.pixel < args.shape.w.window;
    of_second_row_ = at.pixel >= kGradColumns;
    const int32_t pair = at.image / 2, odd = at.image % 2;
    const int32_t grad_pixel = at.pixel % kGradColumns;
    to_ = 16 * (((pair * kInputColumns + at.pixel) * 2 + odd) * 2 + raw_eight(at.eight, at.pixel));
    grads_to_ =
        Filter::kGradsAt + (of_second_row_ ? kGradRowBytes : 0) +
        16 * (((pair * kGradColumns + grad_pixel) * 2 + odd) * 2 + raw_eight(at.eight, at.pixel));
  }

  // What a step brings, to its raw rows.
  __device__ __forceinline__ void send(const ImagesArguments<T>& args,
                                       const typename Filter::Walk& walk, uint32_t to) {
    constexpr int kStep = Filter::kStep;
    const Images& d = args.shape;
    if (walk.begins()) enter(args, walk);
    if (is_mine_) {
      const int32_t first = 2 * (walk.pair() * kStep + Filter::kPairs - kStep) + d.h.origin;
#pragma unroll
      for (int i = 0; i < 2 * kStep; ++i) {
        const bool inside =
            inside_ && static_cast<uint32_t>(first + i) < static_cast<uint32_t>(d.h.source_size);
        copy_line_async(to + to_ + i * kInputRowBytes, from_ + (first + i) * args.input_at.h,
                        inside ? 16 : 0);
      }
    }
    if (walk.is_lead()) return;
    const int32_t row = 2 * walk.pair();
    const bool exists = !of_second_row_ || row + 1 < d.h.outputs;
    copy_line_async(to + grads_to_, grads_from_ + row * args.output_at.h,
                    grads_inside_ && exists ? 16 : 0);
  }

 private:
  struct Thread {
    int32_t eight, image, pixel;  // of a block's channels, of a step's images, of a row

    __device__ __forceinline__ Thread() {
      const auto thread = static_cast<int32_t>(threadIdx.x);
      eight = thread % 2;
      pixel = thread / 4 % kInputColumns;
      image = thread / (4 * kInputColumns) * 2 + thread / 2 % 2;
    }
  };

  __device__ __forceinline__ void enter(const ImagesArguments<T>& args,
                                        const typename Filter::Walk& walk) {
    const Images& d = args.shape;
    const Thread at;
    const auto [segment, eight] = walk.place(d);
    const int64_t image = int64_t{eight} * kImagesAtOnce + at.image;
    // Worked out anew, so that no register holds it.
    const ImagesBlock block(d, static_cast<int32_t>(hidden(blockIdx.x)));
    const int32_t channel = block.first_channel + at.eight * 8;
    const bool exists = image < args.images && channel < d.channels.divisor;
    const int32_t grad_pixel = at.pixel % kGradColumns;
    const int32_t grad_column = segment * d.segment_columns + grad_pixel;
    const int32_t column = segment * d.segment_columns * Filter::kStep + d.w.origin + at.pixel;
    inside_ = exists && static_cast<uint32_t>(column) < static_cast<uint32_t>(d.w.source_size);
    grads_inside_ = exists && grad_pixel < d.columns_of(segment);
    from_ = args.input + image * args.input_at.n + column * args.input_at.w + channel;
    grads_from_ =
        args.grad_output + image * args.output_at.n + grad_column * args.output_at.w + channel;
    if (of_second_row_) grads_from_ += args.output_at.h;
  }

  uint32_t to_, grads_to_;
  bool is_mine_, of_second_row_;
  bool inside_ = false, grads_inside_ = false;
  const T *from_ = nullptr, *grads_from_ = nullptr;  // of the first row, of the thread's first
};

// Moves a step's raw rows to planes. A warp has a row, eight channels, and half of the columns.
template <class Filter>
class ImagesMoves {
 public:
  __device__ __forceinline__ ImagesMoves() {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % 32, warp = thread / 32;
    const int32_t eight = warp % 2, row = warp / 2 % 2;
    half_ = warp / 4;
    const int32_t matrix = lane / 8, pixel = lane % 8 / 2, odd = lane % 2;
    const int32_t place = raw_eight(eight, pixel);
    from_ = row * kInputRowBytes +
            16 * (((matrix * kInputColumns + half_ * 8 + pixel) * 2 + odd) * 2 + place);
    grads_from_ = Filter::kGradsAt + row * kGradRowBytes +
                  16 * (((matrix * kGradColumns + half_ * 4 + pixel) * 2 + odd) * 2 + place);
    const int32_t channel = eight * 8 + lane / 4, to = lane % 4;
    to_ = row * kInputRowBytes +
          16 * (channel * kInputColumns + half_ * 8 + plane_pixel(to, channel));
    grads_to_ = Filter::kGradsAt + row * kGradRowBytes +
                16 * (channel * kGradColumns + plane_pixel(half_ * 4 + to, channel));
  }

  __device__ __forceinline__ void move(uint32_t raw, uint32_t planes) const {
    uint32_t grads[4];
    load_matrices_transposed(raw + grads_from_, grads);
#pragma unroll
    for (int i = 0; i < Filter::kStep; ++i) {
      const uint32_t from = raw + from_ + i * 2 * kInputRowBytes;
      const uint32_t to = planes + to_ + i * 2 * kInputRowBytes;
      uint32_t pixels[2][4];
#pragma unroll
      for (int four = 0; four < 2; ++four) {
        if (has(four)) load_matrices_transposed(from + four * 256, pixels[four]);
      }
      if (i == 0) store_shared_words(planes + grads_to_, grads);
#pragma unroll
      for (int four = 0; four < 2; ++four) {
        if (has(four)) store_shared_words(to ^ (four * 64), pixels[four]);
      }
    }
  }

 private:
  // Whether the first or the second four of the warp's columns are of use.
  __device__ __forceinline__ bool has(int four) const {
    return Filter::kFours >= 3 + four || half_ * 2 + four < Filter::kFours;
  }

  int32_t half_;
  uint32_t from_, grads_from_, to_, grads_to_;
};

}  // namespace haloconv::depthwise
