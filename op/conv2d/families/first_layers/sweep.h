// The arguments of fprop and wgrad for a problem, except units and how blocks share the tiles.
#pragma once

#include "conv2d/families/first_layers/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::first_layers {

inline constexpr int32_t kFpropChannels[] = {32, 64, 96, 128};

// The stride of a dimension along which the copy engine steps.
bool is_multiple_of_8(int64_t extent, int64_t stride);

// ring == 0 if there is no room for the rows of a tile. `pairs`, `ones`: see make_unit_row().
// `is_aligned`: the tensors begin at multiples of 16 bytes.
Sweep make_sweep(const Conv2dProblem& problem, bool pairs, bool ones, bool is_aligned);

FpropArguments fprop_arguments(const Conv2dProblem& problem, bool is_aligned);

WgradArguments wgrad_arguments(const Conv2dProblem& problem, const Sweep& sweep, bool with_bias);

}  // namespace haloconv::sm90::first_layers
