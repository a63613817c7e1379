#include "conv2d/geometry/flat_pixels.h"

namespace haloconv {

std::optional<int64_t> even_distance(const Strides& strides, int64_t n, int64_t h, int64_t w) {
  constexpr int64_t kOfOnePixel = 8;  // never used, but as tensor maps want strides
  const int64_t distance = w > 1 ? strides.w : h > 1 ? strides.h : n > 1 ? strides.n : kOfOnePixel;
  const bool is_even =
      (h == 1 || strides.h == w * distance) && (n == 1 || strides.n == h * w * distance);
  return is_even ? std::optional(distance) : std::nullopt;
}

bool is_flat(const Conv2dProblem& problem) {
  const bool one_tap = problem.r == 1 && problem.s == 1 && problem.stride_h == 1 &&
                       problem.stride_w == 1 && problem.pad_top == 0 && problem.pad_bottom == 0 &&
                       problem.pad_left == 0 && problem.pad_right == 0;
  return one_tap && even_distance(problem.input, problem.n, problem.h, problem.w) &&
         even_distance(problem.output, problem.n, problem.h, problem.w);
}

}  // namespace haloconv
