// The convolution as its definition says, in float64: what every implementation is held against.
#pragma once

#include <vector>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/problem.h"

namespace haloconv::testing {

// Dense tensors, rows innermost, whatever strides the problem has.
using Values = std::vector<double>;

// input (n, c, h, w), filter (k, c/groups, r, s), bias (k) or empty -> output (n, k, p, q)
Values reference_fprop(const Conv2dProblem& problem, const Values& input, const Values& filter,
                       const Values& bias);
// activation(sums * scale + shift + residual), of fprop's sums, (n, k, p, q), or dgrad's, (n, c, h,
// w); scale and shift one value for each of their channels, residual as they, or empty.
Values reference_fused(const Conv2dProblem& problem, Direction direction, Values sums,
                       const Values& scale, const Values& shift, const Values& residual,
                       const Activation& activation);
// The same where taps on padding count as zeros, which an infinite weight makes NaN.
Values reference_padded_fprop(const Conv2dProblem& problem, const Values& input,
                              const Values& filter, const Values& bias);
// grad_output (n, k, p, q), filter -> grad_input (n, c, h, w)
Values reference_dgrad(const Conv2dProblem& problem, const Values& grad_output,
                       const Values& filter);
// The same with bias (c), as a transposed convolution has it.
Values reference_dgrad_with_bias(const Conv2dProblem& problem, const Values& grad_output,
                                 const Values& filter, const Values& bias);
// grad_output, input -> grad_filter (k, c/groups, r, s)
Values reference_wgrad(const Conv2dProblem& problem, const Values& grad_output,
                       const Values& input);
// The same where taps on padding count as zeros, which an infinity of grad_output makes NaN.
Values reference_padded_wgrad(const Conv2dProblem& problem, const Values& grad_output,
                              const Values& input);
// grad_output -> grad_bias (k)
Values reference_bias_grad(const Conv2dProblem& problem, const Values& grad_output);

// Whole numbers from -3 to 3, the same for the same seed: sums of their products are exact in
// float32, TF32 and bfloat16 products alike, so that any wrong index shows as inequality.
Values small_integers(int64_t count, unsigned seed);

// Makes infinities of dense (n, c, h, w) values at the corners of images, and NaN of one in the
// middle.
void make_some_not_finite(Values& values, int64_t n, int64_t c, int64_t h, int64_t w);

inline int64_t input_count(const Conv2dProblem& p) { return p.n * p.c * p.h * p.w; }
inline int64_t filter_count(const Conv2dProblem& p) { return p.k * p.group_c() * p.r * p.s; }
inline int64_t output_count(const Conv2dProblem& p) { return p.n * p.k * p.p() * p.q(); }

}  // namespace haloconv::testing
