#include "conv2d/families/halo/plan.h"

#include <algorithm>
#include <ostream>
#include <tuple>

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/best_of_kinds.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/lowered.h"
#include "conv2d/families/halo/search.h"
#include "conv2d/families/halo/tiles.h"
#include "conv2d/geometry/hopper_rows.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

namespace {

std::string_view name_of(Share share) {
  switch (share) {
    case Share::kChannels:
      return "channels";
    case Share::kImages:
      return "images";
    case Share::kRows:
      return "rows";
    case Share::kColumns:
      return "columns";
  }
  return "";
}

Plan plan_of(const Found& found, const Conv2dProblem& problem, Direction direction, bool precise) {
  Plan plan{.direction = direction,
            .type = problem.type,
            .precise = precise,
            .tile = tiles_of(precise)[found.tile],
            .fold = found.fold.count,
            .fold_columns = found.fold.columns,
            .splits = found.splits,
            .workspace_bytes = found.workspace_bytes,
            .estimated_ms = found.estimated_ms};
  set_stages(problem, found.stages, plan);
  return plan;
}

// Of a flattened() problem: all plans, sorted, or the best of each kind.
std::vector<Plan> find_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32, size_t count) {
  check_not_empty(problem);
  const bool precise = problem.type == DataType::kFloat32 && !tf32;
  BestOfKinds best(count);
  std::vector<Found> found = search_tiles(problem, direction, precise, chip, best);
  // What came later may have left no room.
  std::erase_if(found,
                [&](const Found& each) { return each.estimated_ms > best.most_ms(each.kind); });
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.estimated_ms, a.order) < std::tie(b.estimated_ms, b.order);
  });
  if (count != BestOfKinds::kAll) found = best_of_kinds(found, count);
  std::vector<Plan> plans;
  plans.reserve(found.size());
  for (const Found& each : found) plans.push_back(plan_of(each, problem, direction, precise));
  return plans;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const Tile& t = plan.tile;
  os << plan.direction << (plan.precise ? " precise" : "") << " tile=" << t.images << 'x' << t.rows
     << 'x' << t.columns << '=' << t.instructions << 'x' << t.width
     << (t.patches ? " patches" : " rows") << " share=" << name_of(t.share);
  if (plan.fold > 1) os << " fold=" << plan.fold << (plan.fold_columns ? " columns" : "");
  if (plan.splits > 1) os << " splits=" << plan.splits;
  os << " stages=" << plan.stages << " chunks_ahead=" << plan.chunks_ahead;
  if (takes_fusion(plan) && plan.fused_chunks_ahead < plan.chunks_ahead) {
    os << " (" << plan.fused_chunks_ahead << " fused)";
  }
  if (resident_steps(t) > 0) os << " resident weights";
  if (t.copied) {
    os << (is_flat(t) ? " flat lines" : copies_lines(t) ? " copied lines" : " copied rows");
  }
  return os << " workspace=" << plan.workspace_bytes;
}

void set_stages(const Conv2dProblem& problem, int stages, Plan& plan) {
  const int64_t channels =
      plan.direction == Direction::kFprop ? problem.group_c() : problem.group_k();
  const int64_t chunks = ceil_div(channels, chunk_of(problem.type));
  // Of the split with the fewest chunks too: its second math group waits for so many. Where they
  // are one, it begins when the first group has computed a tile.
  const int64_t least_chunks = chunks - (plan.splits - 1) * ceil_div(chunks, plan.splits);
  plan.stages = stages;
  plan.chunks_ahead =
      static_cast<int>(std::min<int64_t>(stages - 1, std::max<int64_t>(least_chunks / 2, 1)));
  // The kernels with a fusion restore the distance with every tile if it leaves a window of the
  // ring free.
  plan.fused_chunks_ahead = std::min(plan.chunks_ahead, std::max(stages - 2, 1));
  plan.lowered = plan.lowered_without_engine = nullptr;
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32) {
  return find_plans(flattened(problem), direction, chip, tf32, BestOfKinds::kAll);
}

std::vector<Plan> best_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32, size_t count) {
  std::vector<Plan> plans = find_plans(flattened(problem), direction, chip, tf32, count);
  for (Plan& plan : plans) {
    plan.lowered = std::make_shared<const Once<Lowered>>();
    if (plan.tile.copied) plan.lowered_without_engine = std::make_shared<const Once<Lowered>>();
  }
  return plans;
}

}  // namespace haloconv::halo
