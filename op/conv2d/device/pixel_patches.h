// Weight gradients with channels innermost: the output's pixels, cut into patches that are copied,
// each with the input's pixels that it meets, and multiplied one after another.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/problem.h"

namespace haloconv::sm90 {

// What kernels are given of the convolution and of the patches; first among their arguments.
struct PixelPatches {
  int32_t k, c, r, s, w, p, q;
  int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  int32_t columns, rows, images;  // of a patch
  bool images_innermost;
  FastDiv strips, bands;  // patches side by side, and one below the other, of images
  int32_t patches;
};

// Copies the problem's sizes to a kernel's arguments: to those above, and the filter's strides.
template <class Arguments>
void set_problem(Arguments& args, const Conv2dProblem& of) {
  args.k = narrow(of.k), args.c = narrow(of.c), args.r = narrow(of.r), args.s = narrow(of.s);
  args.stride_h = narrow(of.stride_h), args.stride_w = narrow(of.stride_w);
  args.pad_top = narrow(of.pad_top), args.pad_left = narrow(of.pad_left);
  args.dilation_h = narrow(of.dilation_h), args.dilation_w = narrow(of.dilation_w);
  args.w = narrow(of.w), args.p = narrow(of.p()), args.q = narrow(of.q());
  args.filter_k = of.filter.n, args.filter_r = of.filter.h, args.filter_s = of.filter.w;
}

// Where a patch is among them: along a row of patches first, then down, then from images to images.
struct PatchPlace {
  int32_t strip, band, image;

  HALOCONV_HOST_DEVICE PatchPlace(const PixelPatches& patches, int32_t patch) {
    const int32_t above = patches.strips.quotient(patch);
    image = patches.bands.quotient(above);
    strip = patch - above * patches.strips.divisor;
    band = above - image * patches.bands.divisor;
  }

  // To the next patch.
  HALOCONV_HOST_DEVICE void advance(const PixelPatches& patches) {
    if (++strip < patches.strips.divisor) return;
    strip = 0;
    if (++band < patches.bands.divisor) return;
    band = 0;
    ++image;
  }
};

// A box's place among the pixels, in the order of the tensor maps' dimensions.
struct BoxPlace {
  int32_t first, second, third;

  HALOCONV_HOST_DEVICE BoxPlace(const PixelPatches& patches, int32_t w, int32_t h, int32_t n)
      : first(patches.images_innermost ? n : w),
        second(patches.images_innermost ? w : h),
        third(patches.images_innermost ? h : n) {}
};

}  // namespace haloconv::sm90
