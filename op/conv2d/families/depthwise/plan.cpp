#include "conv2d/families/depthwise/plan.h"

#include <algorithm>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/rates.h"

namespace haloconv::depthwise {

namespace {

// On an H200; chip/scale.h scales them to other chips.
constexpr double kClockHz = 1.7e9;
constexpr double kBandsBytesPerSecond = 3e12;
constexpr int64_t kMaxWorkspace = int64_t{32} << 20;

// As many splits as take the fewest tiles' time, of what one to a few waves of blocks, and the
// workspace's limit, allow.
void set_splits(const Conv2dProblem& problem, const DepthwiseWork& work, const Chip& chip,
                Plan& plan) {
  constexpr int64_t kMostWaves = 4;
  const int64_t split_bytes = 4 * problem.k * make_wgrad(problem, plan.with_bias).columns;
  const int64_t most = std::min(std::max<int64_t>(kMaxWorkspace / split_bytes, 1), work.tiles);
  const int64_t wave = int64_t{chip.multiprocessors} * work.resident;
  int64_t least = INT64_MAX;
  for (int64_t waves = 1; waves <= kMostWaves; ++waves) {
    const int64_t wanted = std::clamp<int64_t>(waves * wave / work.split_blocks, 1, most);
    const int64_t tiles = ceil_div(work.tiles, wanted), splits = ceil_div(work.tiles, tiles);
    const int64_t time = ceil_div(splits * work.split_blocks, wave) * (tiles + work.begin_tiles);
    if (time >= least) continue;
    least = time;
    plan.splits = splits;
  }
  plan.workspace_bytes = plan.splits * split_bytes;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << plan.direction << " kernel="
     << (plan.kernel == Kernel::kRows       ? "depthwise"
         : plan.kernel == Kernel::kLines    ? "depthwise_lines"
         : plan.kernel == Kernel::kChannels ? "depthwise_nhwc"
         : plan.kernel == Kernel::kPatches  ? "depthwise_patches"
         : plan.kernel == Kernel::kImages   ? "depthwise_images"
                                            : "depthwise_bands");
  if (plan.bands) os << " strip=" << plan.bands->strip_rows;
  if (plan.direction == Direction::kWgrad) {
    os << " splits=" << plan.splits;
    if (plan.with_bias) os << " with_bias";
  }
  return os << " workspace=" << plan.workspace_bytes;
}

std::optional<Plan> make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                              bool with_bias, Kernel kernel) {
  const auto work = depthwise_work(problem, direction, kernel, chip);
  if (!work) return std::nullopt;
  const bool wgrad = direction == Direction::kWgrad;
  Plan plan{.direction = direction, .kernel = kernel, .with_bias = wgrad && with_bias};
  if (kernel == Kernel::kImages) plan.images = make_images(problem, chip);
  if (wgrad) set_splits(problem, *work, chip, plan);
  if ((wgrad ? plan.splits : work->tiles) * work->split_blocks > INT32_MAX) return std::nullopt;
  const double rate =
      fma_rate(chip, problem.type) * chip.multiprocessors * (kClockHz * clock_scale(chip));
  plan.estimated_ms =
      std::max(work->cycles / rate * 1e3 + work->launch_ms,
               problem.bytes() / (work->bytes_per_second * memory_scale(chip)) * 1e3);
  return plan;
}

std::vector<Plan> make_bands_plans(const Conv2dProblem& problem, Direction direction,
                                   const Chip& chip, bool all) {
  constexpr double kLaunchMs = 0.003;
  std::vector<Plan> plans;
  for (const Bands& bands : all_bands(problem, direction, chip, all)) {
    Plan plan{.direction = direction, .kernel = Kernel::kBands, .bands = bands};
    plan.estimated_ms =
        std::max(bands.cycles(chip) / (kClockHz * clock_scale(chip)) * 1e3,
                 problem.bytes() / (kBandsBytesPerSecond * memory_scale(chip)) * 1e3) +
        kLaunchMs;
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace haloconv::depthwise
