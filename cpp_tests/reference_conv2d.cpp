#include "cpp_tests/reference_conv2d.h"

#include <algorithm>

#include <cmath>
#include <random>

namespace haloconv::testing {

namespace {

// Calls body(output index, input index, filter index) for every product of the definition.
template <class Body>
void for_each_product(const Conv2dProblem& p, Body body) {
  int64_t out = 0;
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t first_c = k / p.group_k() * p.group_c();
      for (int64_t i = 0; i < p.p(); ++i) {
        for (int64_t j = 0; j < p.q(); ++j, ++out) {
          int64_t tap = k * p.group_c() * p.r * p.s;
          for (int64_t c = first_c; c < first_c + p.group_c(); ++c) {
            for (int64_t r = 0; r < p.r; ++r) {
              const int64_t h = i * p.stride_h - p.pad_top + r * p.dilation_h;
              for (int64_t s = 0; s < p.s; ++s, ++tap) {
                const int64_t w = j * p.stride_w - p.pad_left + s * p.dilation_w;
                if (h < 0 || h >= p.h || w < 0 || w >= p.w) continue;
                body(out, ((n * p.c + c) * p.h + h) * p.w + w, tap);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

Values reference_fprop(const Conv2dProblem& p, const Values& input, const Values& filter,
                       const Values& bias) {
  Values output(output_count(p), 0.0);
  for_each_product(p, [&](int64_t y, int64_t x, int64_t f) { output[y] += input[x] * filter[f]; });
  const int64_t plane = p.p() * p.q();
  for (size_t i = 0; i < output.size() && !bias.empty(); ++i) output[i] += bias[i / plane % p.k];
  return output;
}

Values reference_fused(const Conv2dProblem& p, Direction direction, Values sums,
                       const Values& scale, const Values& shift, const Values& residual,
                       const Activation& activation) {
  const bool fprop = direction == Direction::kFprop;
  const int64_t channels = fprop ? p.k : p.c, pixels = fprop ? p.p() * p.q() : p.h * p.w;
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t channel = i / pixels % channels;
    if (!scale.empty()) sums[i] *= scale[channel];
    if (!shift.empty()) sums[i] += shift[channel];
    if (!residual.empty()) sums[i] += residual[i];
    with_activation<double>(activation, [&](auto function) { sums[i] = function(sums[i]); });
  }
  return sums;
}

Values reference_dgrad_with_bias(const Conv2dProblem& p, const Values& grad_output,
                                 const Values& filter, const Values& bias) {
  Values sums = reference_dgrad(p, grad_output, filter);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i / (p.h * p.w) % p.c];
  return sums;
}

Values reference_dgrad(const Conv2dProblem& p, const Values& grad_output, const Values& filter) {
  Values grad_input(input_count(p), 0.0);
  for_each_product(
      p, [&](int64_t y, int64_t x, int64_t f) { grad_input[x] += grad_output[y] * filter[f]; });
  return grad_input;
}

Values reference_wgrad(const Conv2dProblem& p, const Values& grad_output, const Values& input) {
  Values grad_filter(filter_count(p), 0.0);
  for_each_product(
      p, [&](int64_t y, int64_t x, int64_t f) { grad_filter[f] += grad_output[y] * input[x]; });
  return grad_filter;
}

Values reference_bias_grad(const Conv2dProblem& p, const Values& grad_output) {
  Values grad_bias(p.k, 0.0);
  const int64_t plane = p.p() * p.q();
  for (size_t i = 0; i < grad_output.size(); ++i) grad_bias[i / plane % p.k] += grad_output[i];
  return grad_bias;
}

Values small_integers(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  Values values(count);
  for (double& value : values) value = static_cast<int>(engine() % 7) - 3;
  return values;
}

void make_some_not_finite(Values& values, int64_t n, int64_t c, int64_t h, int64_t w) {
  const auto at = [&](int64_t i, int64_t j, int64_t k, int64_t l) -> double& {
    return values.at(((i * c + j) * h + k) * w + l);
  };
  at(0, 0, 0, 0) = INFINITY;
  at(0, c - 1, h - 1, w - 1) = -INFINITY;
  at(n - 1, 0, h / 2, w / 2) = NAN;
  at(n - 1, c - 1, 0, w - 1) = INFINITY;
}

namespace {

// The problem without padding, of an input that has it as zeros.
Conv2dProblem with_padding_inside(const Conv2dProblem& p) {
  Conv2dProblem padded = p;
  padded.h += p.pad_top + p.pad_bottom;
  padded.w += p.pad_left + p.pad_right;
  padded.pad_top = padded.pad_bottom = padded.pad_left = padded.pad_right = 0;
  return padded;
}

Values with_padding(const Conv2dProblem& p, const Values& input) {
  const Conv2dProblem padded = with_padding_inside(p);
  Values with_zeros(static_cast<size_t>(input_count(padded)));
  for (int64_t plane = 0; plane < p.n * p.c; ++plane) {
    for (int64_t h = 0; h < p.h; ++h) {
      const int64_t row = (plane * padded.h + h + p.pad_top) * padded.w + p.pad_left;
      std::copy_n(input.begin() + (plane * p.h + h) * p.w, p.w, with_zeros.begin() + row);
    }
  }
  return with_zeros;
}

}  // namespace

Values reference_padded_fprop(const Conv2dProblem& problem, const Values& input,
                              const Values& filter, const Values& bias) {
  return reference_fprop(with_padding_inside(problem), with_padding(problem, input), filter, bias);
}

Values reference_padded_wgrad(const Conv2dProblem& problem, const Values& grad_output,
                              const Values& input) {
  return reference_wgrad(with_padding_inside(problem), grad_output, with_padding(problem, input));
}

}  // namespace haloconv::testing
