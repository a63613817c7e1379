#include "conv2d/families/relaid/relaid_problem.h"

#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::relaid {

namespace {

// Whether a tensor lies as its copy would.
bool lies_so(const Strides& strides, int64_t n, int64_t c, int64_t h, int64_t w, int64_t unit) {
  const Strides dense = nhwc_strides(c, h, w);
  const auto is = [](int64_t extent, int64_t stride, int64_t wanted) {
    return extent == 1 || stride == wanted;
  };
  return c % unit == 0 && is(n, strides.n, dense.n) && is(c, strides.c, dense.c) &&
         is(h, strides.h, dense.h) && is(w, strides.w, dense.w);
}

bool has_rows(const Strides& strides, int64_t w) { return w == 1 || strides.w == 1; }

// Forward passes of few input channels have kernels of their own, for which zeros only make room.
int64_t counted_input_channels(int64_t c, Direction direction, int64_t unit) {
  return direction == Direction::kFprop && c < unit ? c : round_up(c, unit);
}

}  // namespace

std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32) {
  if (problem.type == DataType::kFloat64) return "the element type is float64";
  if (problem.type == DataType::kFloat32 && !tf32) return "TF32 is not allowed";
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (problem.groups != 1) return "it has groups";
  if (problem.input.c == 1 && problem.output.c == 1 && problem.c > 1 && problem.k > 1) {
    return "channels are innermost";
  }
  const bool reads_input = direction != Direction::kDgrad;
  const bool reads_output = direction != Direction::kFprop;
  if ((reads_input && !has_rows(problem.input, problem.w) && problem.input.c != 1) ||
      (reads_output && !has_rows(problem.output, problem.q()) && problem.output.c != 1)) {
    return "rows are not contiguous in memory";
  }
  constexpr int64_t kMostPixels = int64_t{1} << 30;
  if (problem.n * problem.h * problem.w > kMostPixels ||
      problem.n * problem.p() * problem.q() > kMostPixels ||
      problem.k * problem.r * problem.s > kMostPixels) {
    return "a tensor has more than 2^30 pixels";
  }
  return "";
}

bool skips_pixels(const Conv2dProblem& problem) {
  return problem.r == 1 && problem.s == 1 && (problem.stride_h > 1 || problem.stride_w > 1) &&
         problem.pad_top == 0 && problem.pad_bottom == 0 && problem.pad_left == 0 &&
         problem.pad_right == 0;
}

RelaidProblem relay(const Conv2dProblem& p, Direction direction, bool is_aligned) {
  const int64_t unit = elements_of_unit(size_of(p.type));
  RelaidProblem relaid{.problem = p};
  Conv2dProblem& to = relaid.problem;
  to.c = counted_input_channels(p.c, direction, unit);
  to.k = round_up(p.k, unit);
  if (skips_pixels(p)) {
    to.h = p.p();
    to.w = p.q();
    to.stride_h = to.stride_w = 1;
  }
  const int64_t pitch = round_up(p.c, unit);
  to.input = nhwc_strides(pitch, to.h, to.w);
  to.filter = nhwc_strides(pitch, p.r, p.s);
  to.output = nhwc_strides(to.k, p.p(), p.q());
  relaid.copies_input =
      !is_aligned || skips_pixels(p) || !lies_so(p.input, p.n, p.c, p.h, p.w, unit);
  relaid.copies_output = !is_aligned || !lies_so(p.output, p.n, p.k, p.p(), p.q(), unit);
  // Filters of output channels that were added are zeros.
  relaid.copies_filter = !is_aligned || to.k != p.k || !lies_so(p.filter, p.k, p.c, p.r, p.s, unit);
  return relaid;
}

TensorCopy input_copy(const Conv2dProblem& p, Direction direction) {
  if (!skips_pixels(p)) return make_copy(p.type, p.input, p.n, p.c, p.h, p.w, p.n);
  if (direction == Direction::kDgrad) {
    return make_spread_copy(p.type, p.input, p.n, p.c, p.h, p.w, p.stride_h, p.stride_w, p.p(),
                            p.q());
  }
  Strides met = p.input;
  met.h *= p.stride_h;
  met.w *= p.stride_w;
  return make_copy(p.type, met, p.n, p.c, p.p(), p.q(), p.n);
}

TensorCopy filter_copy(const Conv2dProblem& p) {
  return make_copy(p.type, p.filter, p.k, p.c, p.r, p.s,
                   round_up(p.k, elements_of_unit(size_of(p.type))));
}

TensorCopy output_copy(const Conv2dProblem& p) {
  return make_copy(p.type, p.output, p.n, p.k, p.p(), p.q(), p.n);
}

TensorCopy values_copy(DataType type, int64_t channels) {
  return make_copy(type, {.n = channels, .c = 1, .h = 1, .w = 1}, 1, channels, 1, 1, 1);
}

}  // namespace haloconv::relaid
