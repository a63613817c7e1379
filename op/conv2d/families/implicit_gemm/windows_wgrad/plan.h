// How weight and bias gradients are computed from windows of the input by the matrix instruction
// that every chip since compute capability 8.0 has. Pure host functions: no GPU is asked.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::windows_wgrad {

struct Plan {
  Tile tile;
  Arguments args;
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32);

// All plans of a problem that declines() passes, the one expected to be fastest first; none where a
// tensor's rows lie so that copies of 4 bytes cannot bring them. With `every` also those without
// splits, which tests run.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every);

}  // namespace haloconv::windows_wgrad
