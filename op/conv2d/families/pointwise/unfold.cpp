#include "conv2d/families/pointwise/unfold.h"

#include <algorithm>

#include "conv2d/families/pointwise/one_tap.h"

namespace haloconv::pointwise {

namespace {

// Copies of one input element at the most, in quarters. Weight gradients of 3x3 taps with strides
// of 2 may gain a little.
constexpr int64_t kMostQuarters = 4, kMostQuartersOfWgrad = 9;
constexpr int64_t kMostBytes = int64_t{128} << 20;

bool has_dense_filter(const Conv2dProblem& p) {
  return (p.s == 1 || p.filter.w == 1) && (p.r == 1 || p.filter.h == p.s) &&
         (p.c == 1 || p.filter.c == p.r * p.s);
}

}  // namespace

std::optional<Unfold> unfold_of(const Conv2dProblem& p, Direction direction) {
  const int64_t strides = p.stride_h * p.stride_w, taps = p.r * p.s;
  const int64_t most = direction == Direction::kWgrad ? kMostQuartersOfWgrad : kMostQuarters;
  const bool has_padding = p.pad_top + p.pad_bottom + p.pad_left + p.pad_right > 0;
  const bool is_computed =
      size_of(p.type) == 2 || (p.type == DataType::kFloat32 && direction == Direction::kWgrad);
  if (!is_computed || p.groups != 1 || strides == 1 || taps * 4 > most * strides)
    return std::nullopt;
  if (direction == Direction::kDgrad && (taps != 1 || has_padding)) return std::nullopt;
  const bool has_rows = (p.w == 1 || p.input.w == 1) && (p.q() == 1 || p.output.w == 1) &&
                        (p.p() == 1 || p.output.h == p.q());
  if (!has_rows || !has_dense_filter(p)) return std::nullopt;
  if (static_cast<double>(p.n) * static_cast<double>(p.c * taps) *
          static_cast<double>(p.p() * p.q()) * static_cast<double>(size_of(p.type)) >
      static_cast<double>(kMostBytes)) {
    return std::nullopt;
  }
  const int32_t unit = direction == Direction::kDgrad
                           ? unit_of(p.w, p.input.n, p.input.c, p.h == 1 ? 0 : p.input.h)
                           : std::min(unit_of(p.q()), static_cast<int32_t>(16 / size_of(p.type)));
  return make_unfold(p, unit);
}

Conv2dProblem unfolded(const Conv2dProblem& p) {
  const int64_t pixels = p.p() * p.q();
  Conv2dProblem product = p;
  product.c = p.c * p.r * p.s;
  product.h = product.r = product.s = 1;
  product.w = pixels;
  product.stride_h = product.stride_w = product.dilation_h = product.dilation_w = 1;
  product.pad_top = product.pad_bottom = product.pad_left = product.pad_right = 0;
  product.filter = {p.filter.n, 1, 1, 1};
  product.input = {product.c * pixels, pixels, pixels, 1};
  product.output.h = pixels;
  product.output.w = 1;
  return product;
}

}  // namespace haloconv::pointwise
