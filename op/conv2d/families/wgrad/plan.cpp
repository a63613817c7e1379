#include "conv2d/families/wgrad/plan.h"

#include <algorithm>
#include <ostream>
#include <ranges>
#include <stdexcept>
#include <tuple>

#include "conv2d/families/wgrad/best_of_groups.h"
#include "conv2d/families/wgrad/lowered.h"
#include "conv2d/families/wgrad/search.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::wgrad {

namespace {

// Of a flattened() problem: all plans, sorted, or the best of them.
std::vector<Plan> find_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool tf32, size_t count) {
  check_not_empty(problem);
  const bool precise = problem.type == DataType::kFloat32 && !tf32;
  BestOfGroups best(count);
  Search search(problem, chip, with_bias, precise, best);
  std::vector<Found> found = search.run();
  // What came later may have left no room.
  std::erase_if(found,
                [&](const Found& each) { return each.estimated_ms > best.most_ms(each.group); });
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.estimated_ms, a.group, a.order) < std::tie(b.estimated_ms, b.group, b.order);
  });
  std::vector<Plan> plans;
  plans.reserve(found.size());
  for (const Found& each : best_of_groups(found, count)) plans.push_back(search.plan_of(each));
  return plans;
}

const char* name_of(Share share) {
  switch (share) {
    case Share::kChannels:
      return "channels";
    case Share::kPixels:
      return "pixels";
    case Share::kColumns:
      return "columns";
  }
  throw std::logic_error("haloconv: a wgrad plan shares nothing");
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << (plan.precise ? "wgrad precise instructions=" : "wgrad instructions=")
     << plan.instance.instructions << 'x' << plan.instance.width << " of "
     << plan.instance.width / plan.mma_channels << " taps, tile=" << plan.tile_runs << 'x'
     << plan.tile_groups << " segment=" << plan.segment << " share=" << name_of(plan.share);
  if (plan.boxes) os << " boxes";
  if (plan.splits > 1) os << " splits=" << plan.splits;
  if (plan.walk_rows > 0) os << " interleaved by " << plan.walk_rows << " rows";
  return os << " stages=" << plan.stages << " workspace=" << plan.workspace_bytes;
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool tf32) {
  return find_plans(flattened(problem), chip, with_bias, tf32, BestOfGroups::kAll);
}

std::vector<Plan> best_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool tf32, size_t count) {
  std::vector<Plan> plans = find_plans(flattened(problem), chip, with_bias, tf32, count);
  for (Plan& plan : plans) plan.lowered = std::make_shared<const Once<Lowered>>();
  return plans;
}

Plan without_boxes(const Conv2dProblem& whole, Plan plan) {
  const Conv2dProblem problem = flattened(whole);
  const int longest = plan.segment, vector = segments_of(size_of(problem.type));
  plan.boxes = false;
  for (const int segment : std::views::reverse(kSegmentPixels)) {
    if (segment > longest || !fits(plan.share, segment, vector)) continue;
    plan.segment = segment;
    plan.stages = 0;
    const std::optional<Arguments> args = make_arguments(problem, plan);
    if (!args) continue;
    plan.stages = most_stages(*args, kMaxShared);
    if (plan.stages >= kMinStages) break;
  }
  return plan;
}

}  // namespace haloconv::wgrad
