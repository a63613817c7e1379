#include "conv2d/families/row_strips/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/families/row_strips/arguments.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::row_strips {

namespace {

// The model's constants, from nine problems on an H200: benchmarks/NOTES.md, "a source row with
// all rows of the filter". chip/scale.h scales the rates to other chips.
constexpr double kClockHz = 1.62e9;
constexpr double kLineCycles = 900;      // of a source row beside its products
constexpr double kExchangeCycles = 200;  // added if two blocks share the source channels
constexpr double kLaunchesMs = 0.010;
constexpr int kMostWaves = 3;

double estimate_ms(const Arguments& args, const Chip& chip) {
  const double workers = chip.multiprocessors / args.blocks;
  const double waves = std::ceil(args.items / workers);
  const double lines = args.sweep_lines + args.taps_h - 1;
  const double products = 4.0 * args.chunks * args.taps_w * (kWidth / 2.0);
  const double row = kLineCycles + (args.blocks > 1 ? kExchangeCycles : 0);
  const double cycles = waves * lines * (products + row);
  return cycles / (kClockHz * clock_scale(chip)) * 1e3 + kLaunchesMs;
}

std::optional<Plan> make_plan(const Conv2dProblem& problem, Plan plan, const Chip& chip) {
  plan.stages = 0;
  const std::optional<Arguments> whole = make_arguments(problem, plan);
  if (!whole) return std::nullopt;
  const int64_t room = (kMaxShared - shared_bytes(*whole)) / whole->stage_bytes;
  if (room < kMinStages) return std::nullopt;
  plan.stages = static_cast<int>(std::min<int64_t>(room, kMaxStages));
  plan.workspace_bytes = workspace_bytes(*whole);
  std::optional<Plan> best;
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    const int64_t workers = int64_t{chip.multiprocessors} / plan.blocks * waves;
    plan.sweeps = static_cast<int>(std::clamp<int64_t>(workers / whole->bands, 1, whole->lines));
    const std::optional<Arguments> args = make_arguments(problem, plan);
    if (!args) continue;
    plan.sweeps = args->sweeps;
    plan.estimated_ms = estimate_ms(*args, chip);
    if (best && plan.estimated_ms >= best->estimated_ms) continue;
    plan.arguments = std::make_shared<const Arguments>(*args);
    best = plan;
  }
  return best;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction << " row_strips" << (plan.blocks > 1 ? " halves" : "")
            << " sweeps=" << plan.sweeps << " stages=" << plan.stages
            << " workspace=" << plan.workspace_bytes;
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  std::vector<Plan> plans;
  for (const int blocks : {1, 2}) {
    std::optional<Plan> plan = make_plan(problem, {.direction = direction, .blocks = blocks}, chip);
    if (plan) plans.push_back(*plan);
  }
  std::sort(plans.begin(), plans.end(),
            [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; });
  return plans;
}

}  // namespace haloconv::row_strips
