#include "conv2d/families/heads/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/geometry/flat_pixels.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::heads {

namespace {

// The pixels that a block has at a time. In the gradients as many threads share one as it has units
// of channels.
int64_t block_pixels(const Plan& plan) {
  const bool fprop = plan.direction == Direction::kFprop;
  const int32_t pixels = plan.direction == Direction::kWgrad ? kWgradPixels : kThreadPixels;
  return int64_t{kBlockThreads / (fprop ? plan.sharing : plan.units)} * pixels;
}

// The most threads of a pixel in whose turns there is room for at most an eighth more units than it
// has.
int32_t sharing_of(int32_t units) {
  int32_t sharing = kMostSharing;
  while (round_up(units, sharing) * 8 > units * 9) sharing /= 2;
  return sharing;
}

// The most blocks for a multiprocessor. In fprop more than run at once take longer.
int32_t most_blocks(Direction direction, int64_t value_bytes, int32_t outputs) {
  const int32_t computed = computed_outputs(outputs);
  switch (direction) {
    case Direction::kFprop:
      return kFpropBlocks;
    case Direction::kDgrad:
      return dgrad_blocks(computed) * dgrad_waves(value_bytes, computed);
    case Direction::kWgrad:
      break;
  }
  return kWgradBlocks;
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
  if (size_of(problem.type) > 4) return "it computes in float32 and types of 16 bits alone";
  if (problem.groups != 1 || problem.k > kMostOutputs) {
    return "there are groups, or more than 4 output channels";
  }
  const int64_t unit = kUnitBytes / size_of(problem.type);  // channels
  if (problem.c % unit != 0 || problem.c > kMostInputs) {
    return "input channels fill no whole 16 bytes, or are more than 1024";
  }
  if (!is_flat(problem)) return "its filter has more than one tap, a stride or padding";
  const int64_t input_step = *even_distance(problem.input, problem.n, problem.h, problem.w);
  const int64_t output_step = *even_distance(problem.output, problem.n, problem.h, problem.w);
  if (problem.input.c != 1 || (problem.k > 1 && problem.output.c != 1) || input_step % unit != 0 ||
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
  plan.units = static_cast<int32_t>(problem.c * size_of(problem.type) / kUnitBytes);
  plan.sharing = direction == Direction::kFprop ? sharing_of(plan.units) : 0;
  const int64_t most =
      int64_t{chip.multiprocessors} * most_blocks(direction, size_of(problem.type), plan.outputs);
  plan.blocks = static_cast<int32_t>(std::min(ceil_div(plan.pixels, block_pixels(plan)), most));
  if (direction == Direction::kWgrad) {
    plan.workspace_bytes = int64_t{plan.blocks} * plan.outputs * (plan.inputs + 1) * 4;
  }
  plan.estimated_ms = estimate_ms(problem, plan, chip);
  return plan;
}

}  // namespace haloconv::heads
