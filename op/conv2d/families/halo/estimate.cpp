#include "conv2d/families/halo/estimate.h"

#include <algorithm>

#include "chip/scale.h"

namespace haloconv::halo {

namespace {

// The model's constants: an H200, benchmarks/NOTES.md, "The Hopper planner". chip/scale.h scales
// the rates to other chips.
constexpr double kClockHz = 1.62e9;
constexpr double kCellCycles = 0.8;      // what bringing a cell takes from the math
constexpr double kL2BytesPerCycle = 22;  // of weights and windows to a multiprocessor
constexpr double kBytesPerMs = 3.0e9;
constexpr double kPackBytesPerMs = 1.4e9;
constexpr double kFoldedPackPerMs = 0.3e9;  // its values are sought one by one

// Those that differ by type.
struct Costs {
  double pixel_cycles;   // of a tile beside its steps, for each pixel of a warpgroup
  double line_cycles;    // the same of a tile that is a piece of one row
  double copied_cycles;  // the same of a tile that the copy engine writes
  double wide_cycles;    // more of a step of the largest tiles with many taps
  double round_cycles;   // until a load warp's cells are there
  double alone_cycles;   // the same where no weights are loaded beside them
  double split_cycles;   // to add the sums of a cluster
  double pointwise;      // a single tap: the loads are not hidden
  double apart;          // the same where results are no neighbours
  double cut_sectors;    // more to write in pieces of several unaligned rows
};
constexpr Costs kTf32Costs = {18, 18, 1, 0, 2600, 1800, 2500, 1.5, 1.5, 0.4};
constexpr Costs kPreciseCosts = {18, 18, 18, 0, 2600, 1800, 2500, 1.25, 1.8, 0.4};
constexpr Costs kCostsOf16Bits = {7, 2.5, 1, 20, 1650, 1300, 12000, 1.2, 1.2, 1.4};

const Costs& costs_of(const Plan& plan) {
  if (plan.type != DataType::kFloat32) return kCostsOf16Bits;
  return plan.precise ? kPreciseCosts : kTf32Costs;
}

// Of a warpgroup.
int pixels_of(const Tile& tile) { return tile.instructions * tile.width; }
constexpr int kMostPixels = 256;

double pointwise_factor(const Work& work, const Costs& costs) {
  return work.taps > 1 ? 1 : work.destination_w == 1 ? costs.pointwise : costs.apart;
}

// Of the gradient's or the result's elements.
double result_bytes(const Conv2dProblem& p, Direction direction) {
  const double images = static_cast<double>(p.n * size_of(p.type));
  return direction == Direction::kFprop ? images * static_cast<double>(p.k * p.p() * p.q())
                                        : images * static_cast<double>(p.c * p.h * p.w);
}

}  // namespace

Rates::Rates(const Chip& chip)
    : clock_hz(kClockHz * clock_scale(chip)),
      bytes_per_ms(kBytesPerMs * memory_scale(chip)),
      l2_bytes_per_cycle(kL2BytesPerCycle * l2_scale(chip)),
      pack_bytes_per_ms(kPackBytesPerMs * clock_scale(chip)),
      folded_pack_bytes_per_ms(kFoldedPackPerMs * clock_scale(chip)),
      multiprocessors(chip.multiprocessors) {}

double Rates::at_once(int splits) const { return multiprocessors / splits; }

Work make_work(const FoldedProblem& problem, const AxisPart& row, const AxisPart& column,
               double read, const Rates& rates) {
  const WindowAxis &h = row.window.axis, &w = column.window.axis;
  const FoldedRows folded = problem.folded_rows_of(row, column);
  const int64_t element_bytes = problem.element_bytes;
  Work work{};
  work.taps = h.taps * w.taps;
  work.destination_w = column.step;
  work.sector = 32 / static_cast<int32_t>(element_bytes);
  work.cut = folded.step % work.sector != 0 || problem.gather.destination.c % work.sector != 0;
  work.row_bytes = static_cast<double>(element_bytes * problem.images) * problem.gather.groups *
                   problem.gather.rows * folded.pixels * (folded.columns ? h : w).outputs;
  work.outputs = static_cast<double>(problem.images) * problem.gather.groups *
                 static_cast<double>(h.outputs) * w.outputs;
  work.read = read;
  work.whole_bytes_ms =
      (read + work.row_bytes * std::min(work.destination_w, work.sector)) / rates.bytes_per_ms;
  return work;
}

double cut_sectors(const Plan& plan) { return costs_of(plan).cut_sectors; }

InstanceWork make_instance_work(const Plan& plan, const Work& work, int32_t split_chunks,
                                const Rates& rates) {
  const Tile& tile = plan.tile;
  const Costs& costs = costs_of(plan);
  const double steps = static_cast<double>(split_chunks) * work.taps;
  const int products = plan.precise ? 3 : 1, pixels = pixels_of(tile);
  const bool is_wide = pixels == kMostPixels && streams(work.taps);
  const bool resident = resident_steps(tile) > 0;
  InstanceWork instance{};
  instance.chunks = split_chunks;
  instance.at_once = rates.at_once(plan.splits);
  instance.math_cycles = steps * (products * pixels + (is_wide ? costs.wide_cycles : 0));
  instance.weight_bytes = resident ? 0 : steps * kMathGroups * kStepBytes;
  instance.round_cycles = resident ? costs.alone_cycles : costs.round_cycles;
  instance.in_flight = plan.precise ? kPrecisePixels : pixels_in_flight(tile);
  instance.pixel_cycles = (tile.copied ? costs.copied_cycles : costs.pixel_cycles) * pixels;
  instance.line_cycles = (tile.copied ? costs.copied_cycles : costs.line_cycles) * pixels;
  instance.cell_cycles = kCellCycles * split_chunks;
  instance.split_cycles = plan.splits > 1 ? costs.split_cycles : 0;
  instance.factor = pointwise_factor(work, costs);
  return instance;
}

// Tiles with no output to spare, and windows without a halo.
double least_ms(const Plan& plan, const InstanceWork& of, const Work& work, int32_t row_tiles,
                const Rates& rates) {
  const int pixels = pixels_of(plan.tile) * (plan.tile.share == Share::kChannels ? 1 : kMathGroups);
  const double beside_steps = std::min(of.line_cycles, of.pixel_cycles);
  const double cycles = cycles_of(of, pixels, beside_steps, rates);
  const double tiles = row_tiles * work.outputs / pixels;
  const double waves = std::max(1.0, tiles / of.at_once);
  return of.factor * std::max(waves * cycles / rates.clock_hz * 1e3, work.whole_bytes_ms) +
         kLaunchMs;
}

double estimate_pack_ms(int fold, int64_t workspace_bytes, const Rates& rates) {
  const int64_t packed = workspace_bytes - mark_bytes(fold);
  return static_cast<double>(packed) /
             (fold > 1 ? rates.folded_pack_bytes_per_ms : rates.pack_bytes_per_ms) +
         kLaunchMs;
}

double estimate_zeros_ms(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  return result_bytes(problem, direction) / (kBytesPerMs * memory_scale(chip)) + kLaunchMs;
}

double read_bytes(const Conv2dProblem& problem, Direction direction) {
  return problem.bytes() - result_bytes(problem, direction);
}

}  // namespace haloconv::halo
