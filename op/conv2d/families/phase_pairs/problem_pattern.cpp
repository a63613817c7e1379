#include "conv2d/families/phase_pairs/problem_pattern.h"

#include <algorithm>
#include <iterator>

namespace haloconv::phase_pairs {

namespace {

// A phase's taps follow each other backwards in the source.
int32_t last_of(const AxisPhase& phase) { return phase.origin + phase.first_shift; }
int32_t first_of(const AxisPhase& phase) { return last_of(phase) - (phase.taps - 1); }

}  // namespace

Lowest lowest_of(const std::vector<AxisPhase>& columns) {
  return {.shift = std::min(first_of(columns[0]), first_of(columns[1])),
          .last = std::max(last_of(columns[0]), last_of(columns[1]))};
}

std::optional<Pattern> pattern_of(const std::vector<AxisPhase>& columns) {
  const Lowest lowest = lowest_of(columns);
  if (lowest.last - lowest.shift >= kMaxShifts) return std::nullopt;
  Pattern pattern{.shifts = lowest.last - lowest.shift + 1};
  for (int shift = 0; shift < pattern.shifts; ++shift) {
    for (int phase = 0; phase < kPhases; ++phase) {
      const int32_t source = lowest.shift + shift;
      const bool serves = source >= first_of(columns[phase]) && source <= last_of(columns[phase]);
      pattern.phases |= int{serves} << (2 * shift + phase);
    }
  }
  const bool has_kernel =
      std::find(std::begin(kPatterns), std::end(kPatterns), pattern) != std::end(kPatterns);
  return has_kernel ? std::optional(pattern) : std::nullopt;
}

}  // namespace haloconv::phase_pairs
