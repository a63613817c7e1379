#include "conv2d/families/pointwise/plan.h"

#include <ostream>

#include "conv2d/families/pointwise/arguments.h"
#include "conv2d/families/pointwise/costs.h"

namespace haloconv::pointwise {

namespace {

// Of a tile's results: rounding and staging them, and writing them beside bringing them.
constexpr double kResultCycles = 630, kResultCopies = 0.8;

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction << " pointwise tile=" << plan.tile.rows << 'x' << plan.tile.columns
            << " stages=" << stages_of(plan.tile) << (plan.spread ? " spread" : "")
            << (plan.unfold ? " unfolded" : "") << " workspace=" << plan.workspace_bytes;
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             const std::optional<Spread>& spread) {
  std::vector<Plan> plans;
  for (const Tile& tile : kTiles) {
    Plan plan{.direction = direction, .tile = tile, .spread = spread};
    const std::optional<Arguments> args = make_arguments(problem, plan);
    if (!args) continue;
    // Pixels that are copied one by one have registers on their way, which so large a tile has not.
    if (args->pixel_unit == 1 && tile == Tile{128, 128}) continue;
    const double rows = tile.rows, columns = tile.columns;
    const Work work{
        .tile = tile,
        .chunks = std::ceil(static_cast<double>(args->depth) / kDepth),
        .copies = copy_cycles(rows * kDepth, args->filter_unit) +
                  copy_cycles(columns * kDepth, args->pixel_unit),
        .results = kResultCycles + kResultCopies * copy_cycles(rows * columns, args->result_unit)};
    plan.estimated_ms = estimate_ms(work, args->tiles, problem.bytes(), chip);
    plan.arguments = std::make_shared<const Arguments>(*args);
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace haloconv::pointwise
