#include "conv2d/families/relaid/relaid_problem.h"

#include <algorithm>
#include <numeric>

#include "conv2d/geometry/hopper_channels.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::relaid {

namespace {

// Whether a tensor has the strides of this dense one.
bool lies_so(const Strides& strides, const Strides& dense, int64_t n, int64_t c, int64_t h,
             int64_t w) {
  const auto is = [](int64_t extent, int64_t stride, int64_t wanted) {
    return extent == 1 || stride == wanted;
  };
  return is(n, strides.n, dense.n) && is(c, strides.c, dense.c) && is(h, strides.h, dense.h) &&
         is(w, strides.w, dense.w);
}

bool has_channels_innermost(const Strides& strides, int64_t n, int64_t c, int64_t h, int64_t w) {
  return lies_so(strides, nhwc_strides(c, h, w), n, c, h, w);
}

bool rows_are_contiguous(const Strides& strides, int64_t w) { return w == 1 || strides.w == 1; }

bool are_channels_innermost(const Conv2dProblem& p) {
  return p.input.c == 1 && p.output.c == 1 && p.c > 1 && p.k > 1;
}

// Whether channels are innermost already, but do not fill whole 16 bytes, so that they get zeros.
// For fewer than 16 bytes there are other kernels.
bool gets_zeros_alone(const Conv2dProblem& p) {
  const int64_t unit = elements_of_unit(size_of(p.type));
  return are_channels_innermost(p) && std::min(p.c, p.k) >= unit &&
         (p.c % unit != 0 || p.k % unit != 0);
}

// Why tensors with channels innermost are not copied to rows innermost, or "".
std::string rows_decline(const Conv2dProblem& p, Direction direction, bool is_aligned) {
  if (direction != Direction::kWgrad) return "channels are innermost";
  const int64_t unit = elements_of_unit(size_of(p.type));
  if (p.c % unit != 0 || p.k % unit != 0) return "channels are innermost, in no whole 16 bytes";
  if (!is_aligned) return "a tensor does not begin at a multiple of 16 bytes";
  if (!has_channels_innermost(p.input, p.n, p.c, p.h, p.w) ||
      !has_channels_innermost(p.output, p.n, p.k, p.p(), p.q()) ||
      !has_channels_innermost(p.filter, p.k, p.c, p.r, p.s)) {
    return "channels are innermost, but a tensor is not dense";
  }
  return "";
}

// One axis of the input's pixels that taps can meet: each `step`-th, up to the last one.
struct MetAxis {
  int64_t step, size, pad_before, pad_after;
};

MetAxis met_axis(int64_t size, int64_t taps, int64_t stride, int64_t dilation, int64_t pad_before,
                 int64_t pad_after, int64_t outputs) {
  const MetAxis all = {1, size, pad_before, pad_after};
  const int64_t step = taps == 1 ? stride : std::gcd(stride, dilation);
  if (step == 1 || pad_before % step != 0) return all;
  const int64_t last = ((outputs - 1) * stride + (taps - 1) * dilation - pad_before) / step;
  if (last < 0) return all;
  const int64_t met = std::min(ceil_div(size, step), last + 1);
  return {step, met, pad_before / step, last + 1 - met};
}

struct MetPixels {
  MetAxis h, w;

  bool are_all() const { return h.step == 1 && w.step == 1; }
};

// Input gradients have only those of filters of one tap without padding.
MetPixels met_pixels(const Conv2dProblem& p, Direction direction) {
  const bool has_padding =
      p.pad_top != 0 || p.pad_bottom != 0 || p.pad_left != 0 || p.pad_right != 0;
  if (direction == Direction::kDgrad && (p.r > 1 || p.s > 1 || has_padding)) {
    return {{1, p.h, p.pad_top, p.pad_bottom}, {1, p.w, p.pad_left, p.pad_right}};
  }
  return {
      met_axis(p.h, p.r, p.stride_h, p.dilation_h, p.pad_top, p.pad_bottom, p.p()),
      met_axis(p.w, p.s, p.stride_w, p.dilation_w, p.pad_left, p.pad_right, p.q()),
  };
}

// The problem whose input has those pixels alone.
void keep_met_pixels(const MetPixels& met, Conv2dProblem& p) {
  p.h = met.h.size;
  p.w = met.w.size;
  p.pad_top = met.h.pad_before;
  p.pad_bottom = met.h.pad_after;
  p.pad_left = met.w.pad_before;
  p.pad_right = met.w.pad_after;
  p.stride_h /= met.h.step;
  p.stride_w /= met.w.step;
  p.dilation_h = p.r == 1 ? 1 : p.dilation_h / met.h.step;
  p.dilation_w = p.s == 1 ? 1 : p.dilation_w / met.w.step;
}

// Whether of each tensor that is read rows or channels are contiguous.
bool lie_in_rows_or_channels(const Conv2dProblem& p, Direction direction) {
  const bool reads_input = direction != Direction::kDgrad;
  const bool reads_output = direction != Direction::kFprop;
  return (!reads_input || rows_are_contiguous(p.input, p.w) || p.input.c == 1) &&
         (!reads_output || rows_are_contiguous(p.output, p.q()) || p.output.c == 1);
}

TensorCopy copy_of_input(const Conv2dProblem& p, Direction direction, const MetPixels& met) {
  if (met.are_all()) return make_copy(p.type, p.input, p.n, p.c, p.h, p.w, p.n);
  if (direction == Direction::kDgrad) {
    return make_spread_copy(p.type, p.input, p.n, p.c, p.h, p.w, met.h.step, met.w.step, p.p(),
                            p.q());
  }
  Strides strides = p.input;
  strides.h *= met.h.step;
  strides.w *= met.w.step;
  return make_copy(p.type, strides, p.n, p.c, met.h.size, met.w.size, p.n);
}

RelaidProblem with_channels_innermost(const Conv2dProblem& p, Direction direction, bool is_aligned,
                                      bool keeps_few) {
  const bool dgrad = direction == Direction::kDgrad;
  const int64_t unit = elements_of_unit(size_of(p.type));
  const MetPixels met = met_pixels(p, direction);
  RelaidProblem relaid{.problem = p, .skips_pixels = !met.are_all()};
  Conv2dProblem& to = relaid.problem;
  to.c = keeps_few ? p.c : round_up(p.c, unit);
  // A filter's gradient of 16 bits that lies so already is written as it is, without filters of
  // output channels that were added.
  const bool keeps_filters = direction == Direction::kWgrad && size_of(p.type) == 2 && is_aligned &&
                             p.c % unit == 0 &&
                             lies_so(p.filter, nhwc_strides(p.c, p.r, p.s), p.k, p.c, p.r, p.s);
  to.k = keeps_filters ? p.k : round_up(p.k, unit);
  if (relaid.skips_pixels) keep_met_pixels(met, to);
  const int64_t pitch = round_up(p.c, unit);
  to.input = nhwc_strides(dgrad ? to.c : pitch, to.h, to.w);
  to.filter = nhwc_strides(pitch, p.r, p.s);
  const int64_t output_pitch = round_up(p.k, unit);
  to.output = nhwc_strides(output_pitch, p.p(), p.q());
  const bool has_units = is_aligned && p.c % unit == 0;
  if (!has_units || relaid.skips_pixels || !lies_so(p.input, to.input, p.n, p.c, p.h, p.w)) {
    relaid.input = copy_of_input(p, direction, met);
    relaid.input->padded_channels = narrow(to.input.w);
  }
  // Filters of output channels that were added are zeros.
  const bool keeps_channels = has_units && to.k == p.k;
  if (direction == Direction::kFprop && keeps_channels &&
      is_for_copy_engine(p.filter, p.k, p.r, p.s, unit)) {
    to.filter = p.filter;  // which may lie by taps
  } else if (!keeps_channels || !lies_so(p.filter, to.filter, p.k, p.c, p.r, p.s)) {
    relaid.filter = make_copy(p.type, p.filter, p.k, p.c, p.r, p.s, to.k);
  }
  if (!is_aligned || output_pitch != p.k || !lies_so(p.output, to.output, p.n, p.k, p.p(), p.q())) {
    relaid.output = make_copy(p.type, p.output, p.n, p.k, p.p(), p.q(), p.n);
  }
  const int64_t channels = dgrad ? p.c : p.k;
  if ((dgrad ? to.c : to.k) != channels) {
    relaid.values =
        make_copy(p.type, {.n = channels, .c = 1, .h = 1, .w = 1}, 1, channels, 1, 1, 1);
  }
  return relaid;
}

RelaidProblem with_rows_innermost(const Conv2dProblem& p) {
  RelaidProblem relaid{.problem = p, .has_rows = true};
  Conv2dProblem& to = relaid.problem;
  to.set_dense_strides(false);
  const auto copy_of = [&](const Strides& strides, const Strides& wanted, int64_t n, int64_t c,
                           int64_t h, int64_t w) -> std::optional<TensorCopy> {
    if (lies_so(strides, wanted, n, c, h, w)) return std::nullopt;
    return make_copy(p.type, wanted, n, c, h, w, n);
  };
  relaid.input = copy_of(p.input, to.input, p.n, p.c, p.h, p.w);
  relaid.filter = copy_of(p.filter, to.filter, p.k, p.c, p.r, p.s);
  relaid.output = copy_of(p.output, to.output, p.n, p.k, p.p(), p.q());
  return relaid;
}

}  // namespace

int64_t RelaidProblem::bytes_of(const std::optional<TensorCopy>& copy) const {
  if (!copy) return 0;
  return has_rows ? copy->other_bytes() : copy->dense_bytes();
}

std::string always_declines(const Conv2dProblem& p, Direction direction, bool tf32) {
  if (p.type == DataType::kFloat64) return "the element type is float64";
  if (p.type == DataType::kFloat32 && !tf32) return "TF32 is not allowed";
  if (std::string reason = beyond_limits(p, direction); !reason.empty()) return reason;
  constexpr int64_t kMostPixels = int64_t{1} << 30;
  if (p.n * p.h * p.w > kMostPixels || p.n * p.p() * p.q() > kMostPixels ||
      p.k * p.r * p.s > kMostPixels) {
    return "a tensor has more than 2^30 pixels";
  }
  return "";
}

std::string declines(const Conv2dProblem& p, Direction direction, bool is_aligned) {
  if (p.groups != 1) return "it has groups";
  if (are_channels_innermost(p) && !gets_zeros_alone(p)) {
    return rows_decline(p, direction, is_aligned);
  }
  return lie_in_rows_or_channels(p, direction) ? "" : "rows are not contiguous in memory";
}

bool has_few_channels(const Conv2dProblem& problem, Direction direction) {
  const bool fprop = direction == Direction::kFprop, dgrad = direction == Direction::kDgrad;
  const int64_t unit = elements_of_unit(size_of(problem.type));
  return problem.c < unit && (fprop || (dgrad && unit == kFew));
}

std::optional<RelaidProblem> relay_around_output(const Conv2dProblem& problem, bool is_aligned) {
  const int64_t unit = elements_of_unit(size_of(problem.type));
  const Strides& output = problem.output;
  const bool has_units =
      problem.k % unit == 0 && output.n % unit == 0 && output.c % unit == 0 && output.h % unit == 0;
  if (!is_aligned || !has_units || output.w != 1 || output.c == 1) return std::nullopt;
  RelaidProblem relaid = with_channels_innermost(problem, Direction::kWgrad, is_aligned, false);
  relaid.problem.output = output;
  relaid.output.reset();
  if (!relaid.input && !relaid.filter) return std::nullopt;
  return relaid;
}

std::optional<RelaidProblem> keep_rows_of_result(const Conv2dProblem& problem,
                                                 const RelaidProblem& relaid) {
  if (problem.type != DataType::kFloat32 || relaid.has_rows || !relaid.output ||
      relaid.problem.k != problem.k || !rows_are_contiguous(problem.output, problem.q())) {
    return std::nullopt;
  }
  RelaidProblem keeps = relaid;
  keeps.problem.output = problem.output;
  keeps.output.reset();
  return keeps;
}

std::optional<RelaidProblem> fold_strides(const Conv2dProblem& p, Direction direction,
                                          bool is_aligned) {
  constexpr int64_t kMostChannels = 48, kMostElements = int64_t{1} << 30;
  const bool is_strided = p.stride_h > 1 || p.stride_w > 1;
  const bool is_dilated = (p.r > 1 && p.dilation_h > 1) || (p.s > 1 && p.dilation_w > 1);
  if (direction == Direction::kDgrad || p.groups != 1 || p.c > kMostChannels || !is_strided ||
      is_dilated || p.r % p.stride_h != 0 || p.s % p.stride_w != 0 ||
      !lie_in_rows_or_channels(p, direction)) {
    return std::nullopt;
  }
  const Blocks of_filter = {.height = p.stride_h,
                            .width = p.stride_w,
                            .top = 0,
                            .left = 0,
                            .rows = p.r / p.stride_h,
                            .columns = p.s / p.stride_w};
  Conv2dProblem folded = p;
  folded.c = p.c * p.stride_h * p.stride_w;
  folded.r = of_filter.rows;
  folded.s = of_filter.columns;
  folded.h = p.p() + folded.r - 1;
  folded.w = p.q() + folded.s - 1;
  folded.pad_top = folded.pad_bottom = folded.pad_left = folded.pad_right = 0;
  folded.stride_h = folded.stride_w = folded.dilation_h = folded.dilation_w = 1;
  folded.filter = nhwc_strides(folded.c, folded.r, folded.s);  // of the copy
  RelaidProblem relaid = with_channels_innermost(folded, direction, is_aligned, false);
  const Conv2dProblem& to = relaid.problem;
  if (std::max(p.n * to.h * to.w, to.k * to.r * to.s) > kMostElements / to.c) return std::nullopt;
  const Blocks of_input = {.height = p.stride_h,
                           .width = p.stride_w,
                           .top = p.pad_top,
                           .left = p.pad_left,
                           .rows = to.h,
                           .columns = to.w};
  const bool innermost = p.input.c == 1 && p.c > 1;
  relaid.input.reset();
  relaid.filter.reset();
  relaid.input_blocks =
      make_block_copy(p.type, p.input, p.n, p.c, p.h, p.w, of_input, innermost, p.n, to.c);
  relaid.filter_blocks =
      make_block_copy(p.type, p.filter, p.k, p.c, p.r, p.s, of_filter, innermost, to.k, to.c);
  return relaid;
}

std::vector<RelaidProblem> merge_groups(const Conv2dProblem& p, bool is_aligned) {
  constexpr int64_t kFewest = 8, kWanted = 16, kMostElements = int64_t{1} << 30;
  const int64_t least = std::min(p.group_c(), p.group_k());
  if (p.groups == 1 || p.group_c() == 1 || least >= kFewest ||
      !lie_in_rows_or_channels(p, Direction::kWgrad) || p.k * p.r * p.s > kMostElements / p.c) {
    return {};
  }
  std::vector<RelaidProblem> problems;
  Conv2dProblem one = p;
  one.groups = 1;
  RelaidProblem all = with_channels_innermost(one, Direction::kWgrad, is_aligned, false);
  all.filter.reset();
  all.filter_blocks = make_group_copy(p, p.groups, all.problem.k, all.problem.filter.w);
  problems.push_back(all);

  int64_t merged = ceil_div(kWanted, least);
  while (merged < p.groups && p.groups % merged != 0) ++merged;
  const bool has_rows = rows_are_contiguous(p.input, p.w) && rows_are_contiguous(p.output, p.q());
  if (is_aligned && has_rows && merged < p.groups) {
    RelaidProblem some{.problem = p, .has_rows = true};
    const int64_t channels = merged * p.group_c();
    some.problem.groups = p.groups / merged;
    some.problem.filter = nhwc_strides(channels, p.r, p.s);
    some.filter_blocks = make_group_copy(p, merged, p.k, channels);
    problems.push_back(some);
  }
  return problems;
}

RelaidProblem relay(const Conv2dProblem& problem, Direction direction, bool is_aligned,
                    bool keeps_few) {
  return are_channels_innermost(problem) && !gets_zeros_alone(problem)
             ? with_rows_innermost(problem)
             : with_channels_innermost(problem, direction, is_aligned, keeps_few);
}

}  // namespace haloconv::relaid
