// A folded problem with what the cost model counts of its launches. Many are alike: the phases of a
// stride differ in few ways.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/halo/estimate.h"
#include "conv2d/families/halo/folded_problem.h"

namespace haloconv::halo {

// A work is that of a pair of a row's and a column's shape.
struct FoldedWork {
  FoldChoice choice;
  FoldedProblem problem;
  std::vector<const AxisPart*> rows = {}, columns = {};  // the first of each shape
  std::vector<Work> works = {};                          // of each pair
  std::vector<int32_t> pairs = {};                       // of each launch
  int64_t taps = 0, phases = 0;                          // of all packed filters

  // Of the filters packed for tiles with so many groups of 64 rows, of the counters, and of the
  // list of sums to compute once more.
  int64_t workspace_bytes(int64_t row_groups, int32_t splits, int32_t split_chunks) const;
};

// `read`: bytes of source and filter that each launch takes.
FoldedWork make_folded_work(const FoldChoice& choice, FoldedProblem&& problem, double read,
                            const Rates& rates);

}  // namespace haloconv::halo
