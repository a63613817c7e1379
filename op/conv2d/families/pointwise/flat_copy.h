// Weight gradients of images whose pixels are no multiple of 16 bytes, such as 7x7: copies of both
// tensors, channel by channel with all images' pixels one after the other, are one image of which
// whole vectors are copied. Small maps are all that has so few pixels, so the copies are small too.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

struct FlatCopy {
  int64_t input_n, input_c, output_n, output_k;  // elements between neighbours
  int32_t c, k;
  int32_t element_bytes;
  int32_t pixels;        // of all images
  FastDiv image_pixels;  // of one image

  int32_t vector() const { return 16 / element_bytes; }
  int64_t channel_bytes() const { return int64_t{pixels} * element_bytes; }
  int64_t workspace_bytes() const { return (c + k) * channel_bytes(); }
};

// None where a flattened() problem of one tap needs no copies, or they are too large.
std::optional<FlatCopy> flat_copy_of(const Conv2dProblem& problem);

// The problem of one image.
Conv2dProblem of_one_image(const Conv2dProblem& problem);

double flat_copy_ms(const FlatCopy& copy, const Chip& chip);

}  // namespace haloconv::pointwise
