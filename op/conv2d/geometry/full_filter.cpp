#include "conv2d/geometry/full_filter.h"

namespace haloconv {

namespace {

// Whether an image or a filter, of several pixels, lies as a dense one of such strides.
bool lies_so(const Strides& of, const Strides& dense, const Conv2dProblem& p) {
  const auto is = [](int64_t extent, int64_t stride, int64_t wanted) {
    return extent == 1 || stride == wanted;
  };
  return is(p.c, of.c, dense.c) && is(p.h, of.h, dense.h) && is(p.w, of.w, dense.w);
}

}  // namespace

std::optional<Conv2dProblem> as_one_pixel(const Conv2dProblem& p) {
  const bool has_padding = p.pad_top + p.pad_bottom + p.pad_left + p.pad_right > 0;
  const bool is_full = p.r == p.h && p.s == p.w && p.r * p.s > 1 && p.groups == 1 && !has_padding &&
                       (p.dilation_h == 1 || p.r == 1) && (p.dilation_w == 1 || p.s == 1);
  if (!is_full) return std::nullopt;
  const Strides rows = nchw_strides(p.c, p.h, p.w), channels = nhwc_strides(p.c, p.h, p.w);
  const bool have_rows = lies_so(p.input, rows, p) && lies_so(p.filter, rows, p);
  const bool have_channels = lies_so(p.input, channels, p) && lies_so(p.filter, channels, p);
  if (!have_rows && !have_channels) return std::nullopt;
  Conv2dProblem one = p;
  one.c = p.c * p.h * p.w;
  one.h = one.w = one.r = one.s = 1;
  one.stride_h = one.stride_w = one.dilation_h = one.dilation_w = 1;
  one.input = {p.input.n, 1, one.c, one.c};
  one.filter = {p.filter.n, 1, one.c, one.c};
  return one;
}

}  // namespace haloconv
