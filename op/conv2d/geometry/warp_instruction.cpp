#include "conv2d/geometry/warp_instruction.h"

#include <algorithm>
#include <cmath>

#include "chip/known_chips.h"
#include "conv2d/geometry/limits.h"
#include "conv2d/rates.h"

namespace haloconv {

namespace {

constexpr double kReachedMemoryRate = 0.9;  // of a copy's rate, by these kernels
constexpr int64_t kReservedBytes = 1024;    // of each block's shared memory, by the system

// Whether a tensor's channels lie side by side and its other neighbours whole units apart.
bool is_copied(const Strides& strides, int64_t n, int64_t h, int64_t w, int64_t unit) {
  const auto is_multiple = [&](int64_t extent, int64_t stride) {
    return extent == 1 || stride % unit == 0;
  };
  return strides.c == 1 && is_multiple(n, strides.n) && is_multiple(h, strides.h) &&
         is_multiple(w, strides.w);
}

}  // namespace

std::string warp_instruction_decline(const Conv2dProblem& problem, Direction direction,
                                     const Chip& chip, bool tf32) {
  if (chip.compute_capability < 80) {
    return "the device's compute capability is " +
           compute_capability_text(chip.compute_capability) + ", less than 8.0";
  }
  if (std::string reason = beyond_limits(problem, direction); !reason.empty()) return reason;
  if (problem.type == DataType::kFloat64) return "the element type is float64";
  if (problem.type == DataType::kFloat32 && !tf32) return "float32 may not be rounded to TF32";
  return "";
}

bool lies_in_units(const Conv2dProblem& problem, int64_t unit) {
  return problem.group_c() % unit == 0 && problem.group_k() % unit == 0 &&
         is_copied(problem.input, problem.n, problem.h, problem.w, unit) &&
         is_copied(problem.output, problem.n, problem.p(), problem.q(), unit);
}

// Chips of 9.0 and 10.0 reach their full rate only by instructions of their own. About 0.62 of an
// H200's was measured; for a B200 nothing is published.
double warp_instruction_share(const Chip& chip) {
  switch (chip.compute_capability) {
    case 90:
      return 0.62;
    case 100:
    case 103:
    case 110:
      return 0.5;
    default:
      return 1;
  }
}

// Only the reference problems were timed. On 9.0, where other kernels were timed on many more
// problems, these must be expected to win clearly.
WarpInstructionModel::WarpInstructionModel(const Conv2dProblem& problem, const Chip& chip)
    : reached_rate_(chip.memory_rate * kReachedMemoryRate),
      memory_ms_(problem.bytes() / reached_rate_ * 1e3),
      doubt_(chip.compute_capability == h200().compute_capability ? 1.2 : 1),
      least_ms_(haloconv::least_ms(problem, chip, /*tf32=*/true)) {}

double WarpInstructionModel::ms(double math_ms, double workspace_ms, int64_t kernels) const {
  constexpr double kLaunchMs = 0.002;
  // The longer of the two hides only a part of the shorter.
  const double a = math_ms * math_ms, b = memory_ms_ * memory_ms_;
  const double ms =
      std::sqrt(std::sqrt(a * a + b * b)) + workspace_ms + kLaunchMs * static_cast<double>(kernels);
  return std::max(doubt_ * ms, least_ms_);
}

double WarpInstructionModel::ms_with_partial_sums(double math_ms, int64_t workspace_bytes) const {
  // Written and read.
  const double partial_ms = 2 * static_cast<double>(workspace_bytes) / reached_rate_ * 1e3;
  return ms(math_ms, partial_ms, /*kernels=*/2);
}

int64_t blocks_with_room(const Chip& chip, int most, int64_t shared_bytes) {
  const int64_t room = chip.shared_bytes_per_multiprocessor / (shared_bytes + kReservedBytes);
  return std::min<int64_t>(most, std::max<int64_t>(room, 1));
}

int64_t shared_room(const Chip& chip, int blocks) {
  return std::min<int64_t>(chip.shared_bytes_per_block,
                           chip.shared_bytes_per_multiprocessor / blocks - kReservedBytes);
}

}  // namespace haloconv
