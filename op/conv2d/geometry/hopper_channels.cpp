#include "conv2d/geometry/hopper_channels.h"

#include "conv2d/geometry/limits.h"

namespace haloconv {

std::string hopper_channels_decline(const Conv2dProblem& problem, Direction direction,
                                    const Chip& chip, bool tf32) {
  if (chip.compute_capability != 90) {
    return "the device's compute capability is " +
           compute_capability_text(chip.compute_capability) + ", not 9.0";
  }
  if (problem.type != DataType::kFloat32 && problem.type != DataType::kFloat16 &&
      problem.type != DataType::kBFloat16) {
    return "the element type is none of float32, float16 and bfloat16";
  }
  if (problem.type == DataType::kFloat32 && !tf32) return "TF32 is not allowed";
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  return problem.groups != 1 ? "it has groups" : "";
}

bool is_for_copy_engine(const Strides& strides, int64_t n, int64_t h, int64_t w, int64_t unit) {
  // A broadcast dimension, of stride 0, is none for it.
  const auto is_multiple = [&](int64_t extent, int64_t stride) {
    return extent == 1 || (stride > 0 && stride % unit == 0);
  };
  return strides.c == 1 && is_multiple(n, strides.n) && is_multiple(h, strides.h) &&
         is_multiple(w, strides.w);
}

}  // namespace haloconv
