#include "conv2d/families/generic/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/rates.h"

namespace haloconv::generic {

namespace {

// On an H200; chip/scale.h scales them to other chips.
constexpr double kClockHz = 1.7e9;  // under load; only ratios between kernels matter much
constexpr double kBytesPerSecond = 3e12;
constexpr double kLaunchMs = 0.002;

constexpr int64_t kMaxWgradWorkspace = int64_t{32} << 20;
constexpr int64_t kMinSplitPixels = 256;
constexpr int64_t kMaxSplitPixels = int64_t{1} << 28;

// These, and the efficiencies below, were fitted to times on an H200: benchmarks/NOTES.md.
//
// The work beside the multiplications, in multiply-adds for each result: in a tile for its first
// loads and its epilogue, in a direct kernel for each tap, and once.
constexpr double kTileOverhead = 45;
constexpr double kDirectTapOverhead = 9;
constexpr double kDirectOverhead = 9;
constexpr double kDirectWgradOverhead = 20;
// A direct kernel's threads read along rows; in other layouts each read brings a whole sector.
constexpr double kDirectStridedFactor = 16;

int64_t accumulator_size(DataType type) { return type == DataType::kFloat64 ? 8 : 4; }

// The part of that rate which a kernel reaches when the machine is full of it.
double efficiency(Kernel kernel) {
  switch (kernel) {
    case Kernel::k128x128:
      return 0.54;
    case Kernel::k64x128:
      return 0.5;
    case Kernel::k32x128:
    case Kernel::k128x32:
      return 0.43;
    case Kernel::k16x256:
      return 0.32;
    case Kernel::kDirect:
      return 0.6;
  }
  return 1;
}

struct BlockThreads {
  int threads;
  int resident;  // per multiprocessor
  int resident_blocks() const { return std::max(1, resident / threads); }
};

// A thread of a tile kernel has 128 registers, for float64 255; a direct kernel's has about 48.
BlockThreads block_threads(Kernel kernel, DataType type) {
  if (kernel == Kernel::kDirect) return {kDirectThreads, 1280};
  return {tile_shape(kernel, type).threads(), type == DataType::kFloat64 ? 256 : 512};
}

// `blocks` blocks of `fma` multiply-adds each, on average, because phases differ.
double blocks_ms(double blocks, double fma, const BlockThreads& block, double rate,
                 const Chip& chip) {
  if (blocks > INT32_MAX) return HUGE_VAL;
  const double resident = block.resident_blocks();
  const double each = std::ceil(blocks / chip.multiprocessors);
  // With too few blocks, a multiprocessor's latencies are not hidden.
  const double filled = std::min(1.0, each / resident);
  return each * fma / (rate * (0.4 + 0.6 * filled)) / (kClockHz * clock_scale(chip)) * 1e3;
}

bool reads_along_rows(const Conv2dProblem& problem) {
  return problem.input.w == 1 && problem.output.w == 1;
}

double gather_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip,
                 std::span<const Phase> phases, const PackedShape& tile) {
  const double rate = fma_rate(chip, problem.type) * efficiency(plan.kernel);
  const bool direct = plan.kernel == Kernel::kDirect;
  const double channels_tiles = static_cast<double>(tile.pitch / tile.rows * problem.groups);
  double blocks = 0, fma = 0;
  for (const Phase& phase : phases) {
    const double tiles = static_cast<double>(ceil_div(phase.pixels, tile.columns)) * channels_tiles;
    const double steps = static_cast<double>(round_up(phase.reduction, tile.step));
    blocks += tiles;
    fma += tiles * tile.columns *
           (direct ? (steps + kDirectOverhead) * (tile.rows + kDirectTapOverhead)
                   : (steps + kTileOverhead) * tile.rows);
  }
  if (direct && !reads_along_rows(problem)) fma *= kDirectStridedFactor;
  if (blocks == 0) return 0;
  const BlockThreads block = block_threads(plan.kernel, problem.type);
  return blocks_ms(blocks, fma / blocks, block, rate, chip);
}

double wgrad_ms(const Conv2dProblem& problem, const Plan& plan, const Chip& chip, int64_t tiles) {
  const double rate = fma_rate(chip, problem.type) * efficiency(plan.kernel);
  const double pixels = static_cast<double>(plan.split_pixels);
  const TileShape tile = tile_shape(plan.kernel, problem.type);
  double fma = plan.kernel == Kernel::kDirect ? pixels * kDirectColumns * (1 + kDirectWgradOverhead)
                                              : (pixels + kTileOverhead) * tile.m * tile.n;
  if (plan.kernel == Kernel::kDirect && !reads_along_rows(problem)) fma *= kDirectStridedFactor;
  const BlockThreads block = block_threads(plan.kernel, problem.type);
  return blocks_ms(static_cast<double>(tiles * plan.splits), fma, block, rate, chip);
}

void plan_wgrad(const Conv2dProblem& problem, const Chip& chip, Plan& plan) {
  const int64_t columns = problem.group_c() * problem.r * problem.s + (plan.with_bias ? 1 : 0);
  const bool direct = plan.kernel == Kernel::kDirect;
  const TileShape tile = tile_shape(plan.kernel, problem.type);
  const int64_t tiles =
      direct ? problem.k * ceil_div(columns, kDirectColumns)
             : ceil_div(problem.group_k(), tile.m) * ceil_div(columns, tile.n) * problem.groups;
  const int64_t pixels = problem.n * problem.p() * problem.q();
  const int64_t split_bytes = problem.k * columns * accumulator_size(problem.type);

  // Two full waves of blocks, if the pixels and the workspace's limit allow them.
  const int64_t wanted = int64_t{2} * chip.multiprocessors *
                         block_threads(plan.kernel, problem.type).resident_blocks() / tiles;
  const int64_t most = std::min(ceil_div(pixels, kMinSplitPixels),
                                std::max<int64_t>(kMaxWgradWorkspace / split_bytes, 1));
  const int64_t least = ceil_div(pixels, kMaxSplitPixels);
  const int64_t splits = std::max({std::min(wanted, most), least, int64_t{1}});
  plan.split_pixels = round_up(ceil_div(pixels, splits), direct ? 1 : tile.k);
  plan.splits = ceil_div(pixels, plan.split_pixels);
  plan.workspace_bytes = plan.splits * split_bytes;
  plan.estimated_ms = wgrad_ms(problem, plan, chip, tiles) + 2 * kLaunchMs;
}

void plan_gather(const Conv2dProblem& problem, const Chip& chip, std::span<const Phase> phases,
                 Plan& plan) {
  if (plan.kernel == Kernel::kDirect) {
    const int64_t rows =
        plan.direction == Direction::kFprop ? problem.group_k() : problem.group_c();
    plan.direct_rows = rows == 1 ? 1 : rows == 2 ? 2 : 4;
  }
  const PackedShape packed = packed_shape(problem, plan, phases);
  plan.workspace_bytes = packed.group_elements * problem.groups * accumulator_size(problem.type);
  // The packed filter is written and read; each launch has so many phases.
  const auto launches = static_cast<double>(2 * ceil_div(std::ssize(phases), kPhasesOfLaunch));
  plan.estimated_ms =
      gather_ms(problem, plan, chip, phases, packed) + launches * kLaunchMs +
      2 * static_cast<double>(plan.workspace_bytes) / (kBytesPerSecond * memory_scale(chip)) * 1e3;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, Kernel kernel) {
  if (kernel == Kernel::kDirect) return os << "direct";
  const TileShape shape = tile_shape(kernel, DataType::kFloat32);
  return os << shape.m << 'x' << shape.n;
}

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << plan.direction << " kernel=" << plan.kernel;
  if (plan.direct_rows != 0) os << " rows=" << plan.direct_rows;
  if (plan.direction == Direction::kWgrad) {
    os << " splits=" << plan.splits;
    if (plan.split_pixels > 0) os << " split_pixels=" << plan.split_pixels;
    if (plan.with_bias) os << " with_bias";
  }
  return os << " workspace=" << plan.workspace_bytes;
}

PackedShape packed_shape(const Conv2dProblem& problem, const Plan& plan,
                         std::span<const Phase> phases) {
  const bool fprop = plan.direction == Direction::kFprop;
  const TileShape tile = tile_shape(plan.kernel, problem.type);
  const bool direct = plan.kernel == Kernel::kDirect;
  PackedShape shape{.rows = direct ? plan.direct_rows : tile.m,
                    .columns = direct ? kDirectPixels : tile.n,
                    .step = direct ? 1 : tile.k,
                    .pitch = 0,
                    .group_elements = 0};
  shape.pitch = round_up(fprop ? problem.group_k() : problem.group_c(), shape.rows);
  for (const Phase& phase : phases) {
    shape.group_elements += round_up(phase.reduction, shape.step) * shape.pitch;
  }
  return shape;
}

namespace {

Plan plan_kernel(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                 bool with_bias, Kernel kernel, std::span<const Phase> phases) {
  Plan plan;
  plan.direction = direction;
  plan.kernel = kernel;
  plan.with_bias = with_bias && direction == Direction::kWgrad;
  if (direction == Direction::kWgrad) {
    plan_wgrad(problem, chip, plan);
  } else {
    plan_gather(problem, chip, phases, plan);
  }
  plan.estimated_ms =
      std::max(plan.estimated_ms, problem.bytes() / (kBytesPerSecond * memory_scale(chip)) * 1e3);
  return plan;
}

std::vector<Phase> phases_of(const Conv2dProblem& problem, Direction direction) {
  if (direction == Direction::kWgrad) return {};
  return make_phases(problem, direction);
}

}  // namespace

Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip, bool with_bias,
               Kernel kernel) {
  check_not_empty(problem);
  return plan_kernel(problem, direction, chip, with_bias, kernel, phases_of(problem, direction));
}

Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip,
               bool with_bias) {
  check_not_empty(problem);
  const std::vector<Phase> phases = phases_of(problem, direction);
  const auto plan = [&](Kernel kernel) {
    return plan_kernel(problem, direction, chip, with_bias, kernel, phases);
  };
  Plan best = plan(kAllKernels[0]);
  for (const Kernel kernel : std::span(kAllKernels).subspan(1)) {
    const Plan other = plan(kernel);
    if (other.estimated_ms < best.estimated_ms) best = other;
  }
  return best;
}

}  // namespace haloconv::generic
