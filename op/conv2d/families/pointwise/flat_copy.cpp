#include "conv2d/families/pointwise/flat_copy.h"

#include <algorithm>

#include "chip/scale.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::pointwise {

std::optional<FlatCopy> flat_copy_of(const Conv2dProblem& p) {
  constexpr double kMostBytes = 64 << 20;
  const int64_t vector = 16 / size_of(p.type), pixels = p.n * p.w;
  if (p.groups != 1 || p.n == 1 || p.w % vector == 0 || pixels % vector != 0) return std::nullopt;
  const double bytes = static_cast<double>(p.c + p.k) * static_cast<double>(pixels) *
                       static_cast<double>(size_of(p.type));
  if (bytes > kMostBytes) return std::nullopt;
  return FlatCopy{.input_n = p.input.n,
                  .input_c = p.input.c,
                  .output_n = p.output.n,
                  .output_k = p.output.c,
                  .c = narrow(p.c),
                  .k = narrow(p.k),
                  .element_bytes = narrow(size_of(p.type)),
                  .pixels = narrow(pixels),
                  .image_pixels = FastDiv(p.w)};
}

Conv2dProblem of_one_image(const Conv2dProblem& p) {
  const int64_t pixels = p.n * p.w;
  Conv2dProblem one = p;
  one.n = 1;
  one.w = pixels;
  one.input = {p.c * pixels, pixels, pixels, 1};
  one.output = {p.k * pixels, pixels, pixels, 1};
  return one;
}

double flat_copy_ms(const FlatCopy& copy, const Chip& chip) {
  constexpr double kLaunchMs = 0.003, kBytesPerMs = 2.5e9, kVectorSlots = 90;
  const auto bytes = static_cast<double>(copy.workspace_bytes());
  const double schedulers = 4.0 * chip.multiprocessors;
  const double slots = bytes / 16 / 32 * kVectorSlots;
  return kLaunchMs + std::max(2 * bytes / (kBytesPerMs * memory_scale(chip)),
                              slots / schedulers / chip.clock_hz * 1e3);
}

}  // namespace haloconv::pointwise
