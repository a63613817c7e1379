#include "conv2d/families/relaid/products.h"

#include <algorithm>
#include <optional>

#include "conv2d/geometry/integers.h"

namespace haloconv::relaid {

namespace {

// Rows follow each other, so that an image's channel is one row of pixels.
bool is_flat(const Strides& strides, int64_t h, int64_t w) {
  return (w == 1 || strides.w == 1) && (h == 1 || strides.h == w);
}

bool is_dense_filter(const Conv2dProblem& p) {
  return is_flat(p.filter, p.r, p.s) && (p.c == 1 || p.filter.c == p.r * p.s);
}

bool has_padding(const Conv2dProblem& p) {
  return p.pad_top != 0 || p.pad_bottom != 0 || p.pad_left != 0 || p.pad_right != 0;
}

// Whether images and channels are whole 16 bytes apart.
bool has_units(const Strides& strides, int64_t unit) {
  return strides.n % unit == 0 && strides.c % unit == 0;
}

bool may_unfold(const Conv2dProblem& p) {
  constexpr int64_t kMostCopies = 4;  // of one input element
  constexpr double kMostBytes = 256 << 20;
  const double bytes = static_cast<double>(p.n * p.c * p.r * p.s) *
                       static_cast<double>(p.p() * p.q() * size_of(p.type));
  const int64_t strides = p.stride_h * p.stride_w;
  return strides > 1 && p.r * p.s <= kMostCopies * strides && bytes <= kMostBytes;
}

std::optional<RelaidProblem> product_by_pixels(const Conv2dProblem& p) {
  constexpr int64_t kMostImages = 128;  // as rows of a filter
  const int64_t unit = elements_of_unit(size_of(p.type)), columns = p.c * p.r * p.s;
  const int64_t pixels = p.p() * p.q();
  if (p.n > kMostImages || pixels % unit != 0 || columns % unit != 0 || p.filter.n % unit != 0 ||
      !is_flat(p.output, p.p(), p.q()) || !has_units(p.output, unit) ||
      (p.w != 1 && p.input.w != 1)) {
    return std::nullopt;
  }
  const bool is_one_tap = p.r * p.s == 1 && p.stride_h == 1 && p.stride_w == 1 && !has_padding(p);
  const bool as_it_lies = is_one_tap && is_flat(p.input, p.h, p.w) && has_units(p.input, unit);
  if (!as_it_lies && !may_unfold(p)) return std::nullopt;
  RelaidProblem relaid{.problem = {}, .product = Product::kOfPixels};
  Conv2dProblem& to = relaid.problem;
  to.type = p.type;
  to.c = pixels;
  to.h = to.r = p.n;
  to.w = p.k;
  to.k = columns;
  to.input = {p.n * p.output.n, 1, p.output.n, p.output.c};
  to.filter = as_it_lies ? Strides{p.input.c, 1, p.input.n, p.input.n}
                         : Strides{pixels, 1, columns * pixels, columns * pixels};
  to.output = {p.k * p.filter.n, 1, p.k * p.filter.n, p.filter.n};
  if (!as_it_lies) {
    auto values = static_cast<int32_t>(unit);
    while (p.q() % values != 0) values /= 2;
    relaid.unfolded_input = make_unfold(p, values);
  }
  return relaid;
}

// As many rows or columns as the taps meet, and where the last are missing zeros instead.
void fit(int64_t met, int64_t pad_before, int64_t& size, int64_t& pad_after) {
  pad_after = std::max<int64_t>(0, met - size - pad_before);
  size = std::min(size, met - pad_before);
}

std::optional<RelaidProblem> product_by_images(const Conv2dProblem& p) {
  constexpr int64_t kLeastBytes = 64;  // of a pixel of all images
  const int64_t unit = elements_of_unit(size_of(p.type));
  const bool lie_in_rows = is_flat(p.input, p.h, p.w) && (p.c == 1 || p.input.c == p.h * p.w) &&
                           is_flat(p.output, p.p(), p.q()) &&
                           (p.k == 1 || p.output.c == p.p() * p.q());
  if (p.n * size_of(p.type) < kLeastBytes || p.n % unit != 0 || p.k % unit != 0 || !lie_in_rows) {
    return std::nullopt;
  }
  RelaidProblem relaid{.problem = p, .product = Product::kOfImages};
  Conv2dProblem& to = relaid.problem;
  to.n = p.c;
  to.c = p.n;
  to.r = p.p();
  to.s = p.q();
  to.stride_h = p.dilation_h;
  to.stride_w = p.dilation_w;
  to.dilation_h = p.stride_h;
  to.dilation_w = p.stride_w;
  fit(p.dilation_h * (p.r - 1) + p.stride_h * (p.p() - 1) + 1, p.pad_top, to.h, to.pad_bottom);
  fit(p.dilation_w * (p.s - 1) + p.stride_w * (p.q() - 1) + 1, p.pad_left, to.w, to.pad_right);
  if (to.h < 1 || to.w < 1) return std::nullopt;
  to.input = nhwc_strides(p.n, p.h, p.w);
  to.filter = nhwc_strides(p.n, p.p(), p.q());
  to.output = nhwc_strides(p.k, p.r, p.s);
  const auto copy = [&](int64_t channels, int64_t step, int64_t pixels) {
    return make_copy(p.type, {.n = 0, .c = step, .h = 0, .w = 1}, 1, channels, 1, pixels, 1);
  };
  relaid.input = copy(p.n, p.input.n, p.c * p.h * p.w);
  relaid.output = copy(p.n, p.output.n, p.k * p.p() * p.q());
  relaid.filter = copy(p.k, p.filter.n, p.c * p.r * p.s);
  return relaid;
}

}  // namespace

std::vector<RelaidProblem> products_of(const Conv2dProblem& p, bool is_aligned) {
  constexpr int64_t kMostElements = int64_t{1} << 30;
  std::vector<RelaidProblem> products;
  const bool is_small = p.n * p.h * p.w <= kMostElements / p.c &&
                        p.n * p.p() * p.q() <= kMostElements / p.k &&
                        p.k * p.r * p.s <= kMostElements / p.c;
  if (!is_aligned || p.groups != 1 || !is_dense_filter(p) || !is_small) return products;
  for (const auto& product : {product_by_pixels(p), product_by_images(p)}) {
    if (product) products.push_back(*product);
  }
  return products;
}

}  // namespace haloconv::relaid
