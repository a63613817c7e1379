#include "conv2d/families/pointwise/spread.h"

namespace haloconv::pointwise {

std::optional<Spread> spread_of(const Conv2dProblem& p) {
  const auto is_even = [](int64_t elements) { return elements % 2 == 0; };
  const bool has_no_padding =
      p.pad_top == 0 && p.pad_bottom == 0 && p.pad_left == 0 && p.pad_right == 0;
  const bool fits = p.s == 2 && p.stride_w == 2 && p.stride_h == p.r && p.dilation_w == 1 &&
                    (p.dilation_h == 1 || p.r == 1) && p.groups == 1 && has_no_padding &&
                    p.h == p.p() * p.r && p.w == p.q() * 2;
  const bool has_dense_filter =
      p.filter.w == 1 && (p.r == 1 || p.filter.h == 2) && (p.c == 1 || p.filter.c == p.r * 2);
  const bool has_dense_source = p.output.w == 1 && (p.p() == 1 || p.output.h == p.q());
  // Pairs of results are written at once.
  const bool has_pairs =
      p.input.w == 1 && is_even(p.input.h) && is_even(p.input.c) && is_even(p.input.n);
  if (!fits || !has_dense_filter || !has_dense_source || !has_pairs) return std::nullopt;
  return Spread{.filter_rows = p.r, .source_columns = p.q(), .destination_h = p.input.h};
}

Conv2dProblem one_tap_of(const Conv2dProblem& p) {
  const int64_t pixels = p.p() * p.q();
  Conv2dProblem product = p;
  product.c = p.c * p.r * 2;
  product.h = product.r = product.s = 1;
  product.w = pixels;
  product.stride_h = product.stride_w = 1;
  product.filter = {p.filter.n, 1, 1, 1};
  product.input.h = product.output.h = pixels;
  return product;
}

}  // namespace haloconv::pointwise
