#include "conv2d/families/few_channels/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/families/few_channels/arguments.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::few_channels {

namespace {

// The model's constants, from nine problems on an H200: benchmarks/NOTES.md, "few channels".
// chip/scale.h scales the rates to other chips.
constexpr double kClockHz = 1.65e9;
struct Costs {
  double line;        // cycles of a source row beside the rest
  double math_share;  // the part of the tensor cores' time that is not hidden
  double chunk;       // cycles to bring a chunk of a source row and make it operands
  double turn;        // cycles of some destination channels, which are written together
};
constexpr Costs kTf32Costs = {3100, 0.45, 450, 0};
// From thirteen problems in bfloat16 on an H100; a chunk has twice as many channels.
constexpr Costs k16BitCosts = {1400, 1.1, 230, 430};
constexpr double kSingleCycles = 200;  // added if columns are copied one at a time
constexpr double kBytesPerMs = 3.6e9;
constexpr double kLaunchMs = 0.004;  // of each kernel
constexpr int kMaxWaves = 4;
// More stages leave less of the L1 cache: on an H100 `square_3x3`, whose kernels shuffle, takes
// 1905 us with 6 and 2007 with 11 in bfloat16, 3725 with 6 and 3814 with 9 in TF32. On an H200 28
// layers whose kernels do not take 0.981 of the time with at most 6 for 12.
constexpr int kMostStages = 6;

double estimate_ms(const Conv2dProblem& problem, const Arguments& args, bool shuffles,
                   const Chip& chip) {
  const double workers = chip.multiprocessors;
  const double waves = std::ceil(args.items / workers);
  const double segments = 1 + args.sweep_lines / static_cast<double>(args.lines_of_residue);
  const double lines = args.sweep_lines + segments * (args.taps_h - 1);
  const double math = 4.0 * args.chunks * kSteps * (args.row_taps * args.columns / 2.0);
  const Costs& costs = problem.type == DataType::kFloat32 ? kTf32Costs : k16BitCosts;
  const double chunk = costs.chunk + (args.vector == 1 ? kSingleCycles : 0);
  const double turns = shuffles ? 0 : static_cast<double>(ceil_div(args.rows, kTogether));
  const double cycles =
      waves * lines *
      (costs.line + costs.math_share * math + args.chunks * chunk + turns * costs.turn);
  const int kernels = args.fringe_columns() > 0 ? 3 : 2;
  return std::max(cycles / (kClockHz * clock_scale(chip)) * 1e3,
                  problem.bytes() / (kBytesPerMs * memory_scale(chip))) +
         kernels * kLaunchMs;
}

// The narrowest instance that takes the filter, of two the first.
std::optional<Arguments> find_instance(const Conv2dProblem& problem, Plan& plan) {
  std::optional<Arguments> found;
  for (const Instance& instance : kInstances) {
    Plan tried = plan;
    tried.instance = instance;
    const std::optional<Arguments> args = make_arguments(problem, tried);
    if (!args || (found && plan.instance.width() <= instance.width())) continue;
    plan.instance = instance;
    found = args;
  }
  return found;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << plan.direction << " few_channels taps=" << plan.instance.row_taps << 'x'
            << plan.instance.columns << (plan.instance.shuffles ? " shuffled" : "")
            << " sweeps=" << plan.sweeps << " stages=" << plan.stages
            << " workspace=" << plan.workspace_bytes;
}

std::optional<Plan> make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  Plan plan{.direction = direction};
  plan.stages = 0;
  const std::optional<Arguments> whole = find_instance(problem, plan);
  if (!whole) return std::nullopt;
  const int64_t room = (kMaxShared - shared_bytes(*whole)) / kStageBytes;
  if (room < kMinStages) return std::nullopt;
  plan.stages = static_cast<int>(std::min<int64_t>(room, kMostStages));
  plan.workspace_bytes = workspace_bytes(*whole);
  plan.estimated_ms = HUGE_VAL;
  Plan best = plan;
  Arguments of_best{};
  for (int waves = 1; waves <= kMaxWaves; ++waves) {
    const int64_t workers = int64_t{chip.multiprocessors} * waves;
    plan.sweeps = static_cast<int>(std::clamp<int64_t>(workers / whole->bands, 1, whole->lines));
    const std::optional<Arguments> args = make_arguments(problem, plan);
    if (!args) continue;
    plan.sweeps = args->sweeps;
    plan.estimated_ms = estimate_ms(problem, *args, plan.instance.shuffles, chip);
    if (plan.estimated_ms >= best.estimated_ms) continue;
    best = plan;
    of_best = *args;
  }
  if (std::isinf(best.estimated_ms)) return std::nullopt;
  best.arguments = std::make_shared<const Arguments>(of_best);
  return best;
}

}  // namespace haloconv::few_channels
