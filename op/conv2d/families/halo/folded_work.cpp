#include "conv2d/families/halo/folded_work.h"

#include <iterator>
#include <utility>

namespace haloconv::halo {

FoldedWork make_folded_work(const FoldChoice& choice, FoldedProblem&& problem, double read,
                            const Rates& rates) {
  FoldedWork f{.choice = choice, .problem = std::move(problem)};
  const auto add = [](std::vector<const AxisPart*>& firsts, const AxisPart& part) {
    if (part.shape == std::ssize(firsts)) firsts.push_back(&part);
  };
  for (const AxisPart& row : f.problem.rows) add(f.rows, row);
  for (const AxisPart& column : f.problem.columns) add(f.columns, column);
  for (const AxisPart* const row : f.rows) {
    for (const AxisPart* const column : f.columns) {
      f.works.push_back(make_work(f.problem, *row, *column, read, rates));
    }
  }
  for (const LaunchPair& of : f.problem.launches) {
    const int32_t pair =
        f.problem.rows[of.row].shape * f.problem.column_shapes + f.problem.columns[of.column].shape;
    f.pairs.push_back(pair);
    if (!of.begins_phase) continue;
    f.taps += f.works[pair].taps;
    ++f.phases;
  }
  return f;
}

int64_t FoldedWork::workspace_bytes(int64_t row_groups, int32_t splits,
                                    int32_t split_chunks) const {
  const int64_t steps = splits * split_chunks * taps + phases * kBatchSteps;
  return problem.gather.groups * row_groups * steps * kStepBytes +
         counter_bytes(problem.launches.size()) + mark_bytes(choice.count);
}

}  // namespace haloconv::halo
