// From checked tensors to a problem of op/, and to the implementation that runs it.
#pragma once

#include "conv2d/choice.h"
#include "registration/conv2d_checks.h"

namespace haloconv {

// The problem that tensors with these strides pose; one that the call does not have (its result,
// before it exists) may be undefined and then counts as dense.
Conv2dProblem make_problem(const Conv2dArguments& args, const at::Tensor& input,
                           const at::Tensor& weight, const at::Tensor& output);

// The user's settings, read at every call: float32 precision of convolutions, forced choice.
Settings current_settings();

// What the current CUDA device is.
Device current_device();

// choose(), with an error where the forced implementation declines.
Choice select(const Conv2dProblem& problem, Direction direction, bool with_bias);

}  // namespace haloconv
