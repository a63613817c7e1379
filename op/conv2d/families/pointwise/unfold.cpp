#include "conv2d/families/pointwise/unfold.h"

#include <algorithm>

#include "chip/scale.h"
#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/geometry/integers.h"

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
  Unfold unfold{};
  unfold.input_n = p.input.n, unfold.input_c = p.input.c, unfold.input_h = p.input.h;
  if (static_cast<double>(p.n) * static_cast<double>(p.c * taps) *
          static_cast<double>(p.p() * p.q()) * static_cast<double>(size_of(p.type)) >
      static_cast<double>(kMostBytes)) {
    return std::nullopt;
  }
  unfold.n = narrow(p.n), unfold.h = narrow(p.h), unfold.w = narrow(p.w);
  unfold.p = narrow(p.p()), unfold.q = narrow(p.q());
  unfold.stride_h = narrow(p.stride_h), unfold.stride_w = narrow(p.stride_w);
  unfold.dilation_h = narrow(p.dilation_h), unfold.dilation_w = narrow(p.dilation_w);
  unfold.pad_top = narrow(p.pad_top), unfold.pad_left = narrow(p.pad_left);
  unfold.taps_h = narrow(p.r), unfold.taps_w = narrow(p.s);
  unfold.c = FastDiv(p.c);
  unfold.element_bytes = narrow(size_of(p.type));
  unfold.unit = direction == Direction::kDgrad
                    ? unit_of(p.w, p.input.n, p.input.c, p.h == 1 ? 0 : p.input.h)
                    : std::min(unit_of(p.q()), 16 / unfold.element_bytes);
  return unfold;
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

double unfold_ms(const Conv2dProblem& p, const Unfold& unfold, Direction direction,
                 const Chip& chip) {
  constexpr double kLaunchMs = 0.003, kBytesPerMs = 3.0e9;
  constexpr double kThreadSlots = 60, kTapSlots = 25;  // of a scheduler, for a warp
  // Rows between those that a filter meets are not read; their zeros are written.
  const double read_rows =
      direction == Direction::kDgrad
          ? 1
          : std::min(1.0, static_cast<double>(p.r) / static_cast<double>(p.stride_h));
  const double input =
      static_cast<double>(p.n * p.c) * static_cast<double>(p.h * p.w) * unfold.element_bytes;
  const double bytes = input * read_rows + static_cast<double>(unfold.bytes());
  const bool back = direction == Direction::kDgrad;
  const double values =
      static_cast<double>(p.n * p.c) * static_cast<double>(back ? p.h * p.w : unfold.pixels());
  const double slots =
      values / unfold.unit / 32 * (kThreadSlots + kTapSlots * unfold.taps_h * unfold.taps_w);
  const double schedulers = 4.0 * chip.multiprocessors;
  return kLaunchMs + std::max(bytes / (kBytesPerMs * memory_scale(chip)),
                              slots / schedulers / chip.clock_hz * 1e3);
}

}  // namespace haloconv::pointwise
