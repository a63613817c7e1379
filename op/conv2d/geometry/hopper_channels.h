// What the Hopper kernels for channels innermost need from a chip and a problem, in all families.
#pragma once

#include <string>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv {

// Why none of them takes the problem, or "". `tf32`: float32 products may be rounded.
std::string hopper_channels_decline(const Conv2dProblem& problem, Direction direction,
                                    const Chip& chip, bool tf32);

// Whether a tensor's channels lie side by side and its other neighbours whole units apart. Units
// are 16 bytes, which the copy engine takes.
bool is_for_copy_engine(const Strides& strides, int64_t n, int64_t h, int64_t w, int64_t unit);

}  // namespace haloconv
