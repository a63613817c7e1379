#include "conv2d/families/heads/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/geometry/flat_pixels.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::heads {

namespace {

// The pixels that a block has at a time. In fprop eight threads share a pixel, in the gradients as
// many as there are units of channels.
int64_t block_pixels(Direction direction, int32_t inputs) {
  const int32_t sharing = direction == Direction::kFprop ? 8 : inputs / kUnit;
  const int32_t thread_pixels = direction == Direction::kWgrad ? kWgradPixels : kThreadPixels;
  return int64_t{kBlockThreads / sharing} * thread_pixels;
}

double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  const double launch_ms = plan.direction == Direction::kWgrad ? 0.005 : 0.004;
  constexpr double kMemoryRate = 0.9;  // as a part of a copy's
  // As a part of the ordinary instructions' rate, because there are conversions and sums too.
  constexpr double kMathRate = 0.3;
  const double products = static_cast<double>(plan.pixels) * plan.inputs;
  const double math = products * (computed_outputs(plan.outputs) + 1) /
                      (chip.cycle_rate() * chip.multiply_adds.float32 * kMathRate);
  const double memory = problem.bytes() / (chip.memory_rate * kMemoryRate);
  return launch_ms + std::max(math, memory) * 1e3;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction << " outputs=" << computed_outputs(plan.outputs)
            << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction) {
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (size_of(problem.type) != 2) return "it computes in types of 16 bits alone";
  if (problem.groups != 1 || problem.k > kMostOutputs) {
    return "there are groups, or more than 4 output channels";
  }
  if (problem.c % kUnit != 0 || problem.c > kMostInputs) {
    return "input channels are no multiple of 8, or more than 1024";
  }
  if (!is_flat(problem)) return "its filter has more than one tap, a stride or padding";
  const int64_t input_step = *even_distance(problem.input, problem.n, problem.h, problem.w);
  const int64_t output_step = *even_distance(problem.output, problem.n, problem.h, problem.w);
  if (problem.input.c != 1 || (problem.k > 1 && problem.output.c != 1) || input_step % kUnit != 0 ||
      input_step < problem.c || output_step < problem.k) {
    return "channels are not innermost, or pixels do not begin at multiples of 16 bytes";
  }
  return "";
}

Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  Plan plan;
  plan.direction = direction;
  plan.pixels = problem.n * problem.h * problem.w;
  plan.input_step = *even_distance(problem.input, problem.n, problem.h, problem.w);
  plan.output_step = *even_distance(problem.output, problem.n, problem.h, problem.w);
  plan.filter_k = problem.filter.n;
  plan.filter_c = problem.filter.c;
  plan.inputs = static_cast<int32_t>(problem.c);
  plan.outputs = static_cast<int32_t>(problem.k);
  const int64_t at_once =
      int64_t{chip.multiprocessors} * (direction == Direction::kWgrad
                                           ? kWgradBlocks
                                           : blocks_at_once(computed_outputs(plan.outputs)));
  plan.blocks = static_cast<int32_t>(
      std::min(ceil_div(plan.pixels, block_pixels(direction, plan.inputs)), at_once));
  if (direction == Direction::kWgrad) {
    plan.workspace_bytes = int64_t{plan.blocks} * plan.outputs * (plan.inputs + 1) * 4;
  }
  plan.estimated_ms = estimate_ms(problem, plan, chip);
  return plan;
}

}  // namespace haloconv::heads
