// What PyTorch's own convolution is expected to take on a CUDA device.
#pragma once

#include "conv2d/device.h"
#include "conv2d/problem.h"

namespace haloconv {

// Milliseconds. `tf32`: float32 products may be rounded to TF32. The rates behind it were measured
// on an H200 (benchmarks/NOTES.md: "the choice rule", of TF32 "the Hopper planner and the choice",
// of 16 bits "16-bit types", of channels innermost "depthwise layers with channels innermost");
// other chips are taken to be slower or faster by their multiprocessors and their rate of
// multiply-adds, as the generic kernels are.
double estimate_aten_ms(const Conv2dProblem& problem, Direction direction, const Device& device,
                        bool tf32);

}  // namespace haloconv
