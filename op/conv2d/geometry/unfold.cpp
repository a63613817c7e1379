#include "conv2d/geometry/unfold.h"

#include <algorithm>

#include "chip/scale.h"
#include "conv2d/geometry/integers.h"

namespace haloconv {

Unfold make_unfold(const Conv2dProblem& p, int32_t unit) {
  Unfold unfold{};
  unfold.input_n = p.input.n, unfold.input_c = p.input.c, unfold.input_h = p.input.h;
  unfold.n = narrow(p.n), unfold.h = narrow(p.h), unfold.w = narrow(p.w);
  unfold.p = narrow(p.p()), unfold.q = narrow(p.q());
  unfold.stride_h = narrow(p.stride_h), unfold.stride_w = narrow(p.stride_w);
  unfold.dilation_h = narrow(p.dilation_h), unfold.dilation_w = narrow(p.dilation_w);
  unfold.pad_top = narrow(p.pad_top), unfold.pad_left = narrow(p.pad_left);
  unfold.taps_h = narrow(p.r), unfold.taps_w = narrow(p.s);
  unfold.c = FastDiv(p.c);
  unfold.element_bytes = narrow(size_of(p.type));
  unfold.unit = unit;
  return unfold;
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

}  // namespace haloconv
