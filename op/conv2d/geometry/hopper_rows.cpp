#include "conv2d/geometry/hopper_rows.h"

#include <algorithm>
#include <limits>

#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/limits.h"

namespace haloconv {

namespace {

bool fits_32_bits(int64_t value) { return value <= std::numeric_limits<int32_t>::max(); }

// What fprop and dgrad decline beside what all directions decline.
std::string gather_declines(const Conv2dProblem& problem, Direction direction) {
  const bool fprop = direction == Direction::kFprop;
  const Strides& destination = fprop ? problem.output : problem.input;
  if (destination.c == 1 && destination.w != 1) return "the result's rows are not contiguous";
  const int64_t rows = fprop ? problem.group_k() : problem.group_c();
  if (problem.groups > 65535 || rows > int64_t{65535} * 16 - 128) return "too many channels";
  if (tapped_phases(problem, direction).count() == 0) return "no tap meets the input";
  return "";
}

}  // namespace

std::string hopper_rows_decline(const Conv2dProblem& problem, Direction direction,
                                const Chip& chip) {
  if (chip.compute_capability != 90) {
    return "the device is not of compute capability 9.0 but of " +
           compute_capability_text(chip.compute_capability);
  }
  if (problem.type != DataType::kFloat32 && problem.type != DataType::kFloat16 &&
      problem.type != DataType::kBFloat16) {
    return "the element type is not float32, float16 or bfloat16";
  }
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (problem.groups > 1 && std::min(problem.group_c(), problem.group_k()) < 8) {
    return "a group has fewer than 8 channels";
  }
  if (!fits_32_bits(plane_span(problem.input, problem.h, problem.w)) ||
      !fits_32_bits(plane_span(problem.output, problem.p(), problem.q()))) {
    return "a plane spans 2^31 elements or more";
  }
  const bool input_rows = problem.input.w == 1 || problem.w == 1;
  const bool output_rows = problem.output.w == 1 || problem.q() == 1;
  const bool reads_input = direction != Direction::kDgrad;
  const bool reads_output = direction != Direction::kFprop;
  if ((reads_input && !input_rows) || (reads_output && !output_rows)) {
    return "rows are not contiguous in memory";
  }
  if (problem.r * problem.s > 4096) return "the filter has more than 4096 taps";
  if (problem.stride_h > kMostRowsStride || problem.stride_w > kMostRowsStride) {
    return "a stride is over 8";
  }
  return direction == Direction::kWgrad ? "" : gather_declines(problem, direction);
}

Conv2dProblem flattened(const Conv2dProblem& problem) {
  const bool is_1x1 = problem.r == 1 && problem.s == 1 && problem.stride_h == 1 &&
                      problem.stride_w == 1 && problem.pad_top == 0 && problem.pad_bottom == 0 &&
                      problem.pad_left == 0 && problem.pad_right == 0;
  const auto dense = [&](const Strides& s) { return s.w == 1 && s.h == problem.w; };
  if (!is_1x1 || !dense(problem.input) || !dense(problem.output)) return problem;
  Conv2dProblem flat = problem;
  flat.h = 1;
  flat.w = problem.h * problem.w;
  flat.input.h = flat.output.h = flat.w;
  return flat;
}

int64_t plane_span(const Strides& s, int64_t height, int64_t width) {
  return height * s.h + width * s.w;
}

}  // namespace haloconv
