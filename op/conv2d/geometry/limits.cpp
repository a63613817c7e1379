#include "conv2d/geometry/limits.h"

#include <sstream>

#include "conv2d/geometry/geometry.h"

namespace haloconv {

std::string beyond_limits(const Conv2dProblem& p, Direction direction) {
  constexpr int64_t kMaxCoordinate = int64_t{1} << 27;
  constexpr int64_t kMaxCount = int64_t{1} << 30;
  constexpr int64_t kMaxPhases = 4096;
  const auto over = [](const char* what, int64_t value, int64_t limit) {
    std::ostringstream message;
    message << what << " is " << value << ", more than " << limit;
    return message.str();
  };
  struct Limit {
    const char* what;
    int64_t value, limit;
  };
  // First the numbers of which the others are sums and products.
  const Limit factors[] = {
      {"padding at the top", p.pad_top, kMaxCoordinate},
      {"padding at the bottom", p.pad_bottom, kMaxCoordinate},
      {"padding at the left", p.pad_left, kMaxCoordinate},
      {"padding at the right", p.pad_right, kMaxCoordinate},
      {"input height", p.h, kMaxCoordinate},
      {"input width", p.w, kMaxCoordinate},
      {"filter height", p.r, kMaxCoordinate},
      {"filter width", p.s, kMaxCoordinate},
      {"taps", p.r * p.s, kMaxCount},
      {"input channels", p.c, kMaxCount},
      {"output channels", p.k, kMaxCount},
      {"dilation along the height", p.r > 1 ? p.dilation_h : 1, kMaxCoordinate},
      {"dilation along the width", p.s > 1 ? p.dilation_w : 1, kMaxCoordinate},
  };
  for (const Limit& limit : factors) {
    if (limit.value > limit.limit) return over(limit.what, limit.value, limit.limit);
  }
  const Limit limits[] = {
      {"padded input height", p.h + p.pad_top + p.pad_bottom, kMaxCoordinate},
      {"padded input width", p.w + p.pad_left + p.pad_right, kMaxCoordinate},
      {"stride along the height", p.stride_h, kMaxCoordinate},
      {"stride along the width", p.stride_w, kMaxCoordinate},
      {"batch size", p.n, kMaxCount},
      {"pixels of an input image", p.h * p.w, kMaxCount},
      {"pixels of an output image", p.p() * p.q(), kMaxCount},
      {"input channels * taps", p.group_c() * p.r * p.s, kMaxCount},
      {"output channels * taps", p.group_k() * p.r * p.s, kMaxCount},
      {"number of groups", p.groups, kMaxCount},
      {"number of phases", phase_count(p, direction), kMaxPhases},
  };
  if (p.type == DataType::kOther) {
    return "the element type is none of float32, float64, float16 and bfloat16";
  }
  if (p.is_empty()) return "a tensor has no element";
  for (const Limit& limit : limits) {
    if (limit.value > limit.limit) return over(limit.what, limit.value, limit.limit);
  }
  return "";
}

}  // namespace haloconv
