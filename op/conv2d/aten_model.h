// The time that PyTorch's own convolution is expected to take on a CUDA device.
#pragma once

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv {

// Milliseconds. `tf32`: float32 products may be rounded to TF32. `with_bias`: wgrad computes the
// bias gradient too. The rates behind it were measured on an H200. benchmarks/NOTES.md has them in
// "the choice rule", for TF32 in "the Hopper planner and the choice", for 16 bits in "16-bit
// types", and for channels innermost in "depthwise layers with channels innermost", the two entries
// of 2026-11-24, "what ATen takes for few channels and for a bias" and, with times of an H100,
// "estimates of small layers". On other chips each rate is scaled by what bounds it: bytes by the
// memory's rate, matrix work by the tensor cores' rate for the type, and the rest by the rate of
// ordinary multiply-adds.
double estimate_aten_ms(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                        bool tf32, bool with_bias = false);

}  // namespace haloconv
