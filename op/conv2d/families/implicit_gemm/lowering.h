// What the launches of all plans for a problem have in common, so that a planner which tries many
// works it out once.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/implicit_gemm/arguments.h"

namespace haloconv::implicit_gemm {

struct Lowering {
  Lowering(const Conv2dProblem& problem, Direction direction);

  // A phase in the order of launches, the longest first, so that short ones fill the last wave;
  // how many taps the phases before it have in the order of the packed filter.
  struct OrderedPhase {
    Phase phase;
    int64_t taps_before;
  };

  DataType type;
  Gather gather;
  std::vector<OrderedPhase> phases;
  int64_t taps = 0;       // of all phases
  int32_t most_taps = 0;  // of one phase
  int32_t units = 0;      // of a source pixel's channels, of a group, rounded up
};

// As the functions in arguments.h that take a problem.
std::vector<Arguments> make_arguments(const Lowering& lowering, const Tile& tile, int stages);
std::vector<Arguments> make_window_arguments(const Lowering& lowering, const Tile& tile,
                                             Access access, int log_units, int log_columns,
                                             bool shifts_rows);

}  // namespace haloconv::implicit_gemm
