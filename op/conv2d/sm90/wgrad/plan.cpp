#include "conv2d/sm90/wgrad/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "conv2d/integers.h"
#include "conv2d/sm90/plan.h"
#include "conv2d/sm90/wgrad/arguments.h"

namespace haloconv::sm90::wgrad {

namespace {

// An instance of the kernel, and what a step of both warpgroups takes.
struct Candidate {
  Instance instance;
  double step_cycles;
};

// Measured on an H200: benchmarks/NOTES.md, "weight gradient in TF32 on Hopper".
constexpr Candidate kCandidates[] = {
    {{9, 32}, 324}, {{6, 48}, 297}, {{5, 56}, 280}, {{3, 48}, 145}, {{4, 64}, 256}};

constexpr int kSegmentPixels[] = {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64};

// The model's constants, fitted to 1998 times on an H200: benchmarks/NOTES.md.
constexpr double kClockHz = 1.65e9;
constexpr double kBatchCycles = 680;     // for a load warp to bring a batch of cells
constexpr double kCopyCycles = 17;       // for the load warps to start 128 copies
constexpr double kUnhidden = 0.5;        // of the work beside the longest
constexpr double kStripCycles = 450;     // of a strip beside its work
constexpr double kTwoStageCycles = 420;  // the same, where there are but two stages
constexpr double kBlockCycles = 7800;    // first loads, last sums
constexpr double kBytesPerMs = 3.2e9;
constexpr double kPartBytesPerMs = 1.2e9;  // partial sums, there and back
constexpr double kLaunchMs = 0.006;        // two kernels
constexpr int64_t kMaxWorkspace = int64_t{48} << 20;
constexpr int kMaxWaves = 4;
constexpr int kPlansOfColumns = 2;  // kept for each arrangement of the columns

double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Arguments& args,
                   double step_cycles, const Device& device) {
  const double steps = args.group_pixels() / 2.0;
  Block first{};
  args.set_columns(first, 0);
  const double batches = static_cast<double>(ceil_div(args.quads(first), kLoadWarps)) *
                         static_cast<double>(ceil_div(args.plane_columns, kBatchColumns));
  const double rows = std::min(args.tile_rows, args.rows);
  const double copies = rows * args.segment * kSegments / args.output_vector / kLoadThreads;
  const double work[] = {steps * step_cycles, batches * kBatchCycles, copies * kCopyCycles};
  const double longest = std::max({work[0], work[1], work[2]});
  const double strip = longest + kUnhidden * (work[0] + work[1] + work[2] - longest) +
                       kStripCycles + (args.stages == 2 ? kTwoStageCycles : 0);
  const double waves = std::ceil(static_cast<double>(args.blocks()) / device.multiprocessors);
  const double cycles = waves * (args.split_strips * strip + kBlockCycles);
  const double partial = static_cast<double>(plan.workspace_bytes);
  return std::hypot(cycles / kClockHz * 1e3, problem.bytes() / kBytesPerMs) +
         partial / kPartBytesPerMs + kLaunchMs;
}

// Calls body(plan) for each arrangement of an instance's columns.
template <class Body>
void for_each_arrangement(const Conv2dProblem& problem, const Instance& instance, Body body) {
  for (int slot_channels = 8; slot_channels <= instance.width; slot_channels += 8) {
    if (instance.width % slot_channels != 0) continue;
    Plan plan{.instance = instance, .slot_channels = slot_channels};
    plan.tile_runs = 1;
    plan.tile_groups = 1;
    plan.segment = 4;
    const std::optional<Arguments> args = make_arguments(problem, plan);
    if (!args) continue;
    // A slot's columns lie at one distance: taps of many channels must be neighbours.
    if (args->slot_taps > 1 && slot_channels > 8 && args->shift_step != 1) continue;
    const int64_t groups = ceil_div(args->channels, slot_channels);
    // The fewest blocks; of these, with most taps, which share a window.
    int64_t fewest = INT64_MAX;
    for (int runs = std::min(instance.slots, args->runs); runs >= 1; --runs) {
      const int64_t tile_groups = std::min<int64_t>(instance.slots / runs, groups);
      const int64_t tiles = ceil_div(args->runs, runs) * ceil_div(groups, tile_groups);
      if (tiles >= fewest) continue;
      fewest = tiles;
      plan.tile_runs = runs;
      plan.tile_groups = static_cast<int>(tile_groups);
    }
    body(plan);
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << "wgrad slots=" << plan.instance.slots << 'x' << plan.instance.width << " of "
     << plan.instance.width / plan.slot_channels << " taps, tile=" << plan.tile_runs << 'x'
     << plan.tile_groups << " segment=" << plan.segment
     << " share=" << (plan.share == Share::kPixels ? "pixels" : "channels");
  if (plan.splits > 1) os << " splits=" << plan.splits;
  return os << " stages=" << plan.stages << " workspace=" << plan.workspace_bytes;
}

std::vector<Plan> make_plans(const Conv2dProblem& whole, const Device& device, bool with_bias) {
  const Conv2dProblem problem = flattened(whole);
  std::vector<Plan> plans;
  // The best number of splits, if the plan fits in shared memory at all.
  const auto add = [&](Plan plan, double step_cycles, std::vector<Plan>& to) {
    plan.stages = 0;
    plan.splits = 1;
    const std::optional<Arguments> whole_pixels = make_arguments(problem, plan);
    if (!whole_pixels) return;
    plan.stages = static_cast<int>(std::min<int64_t>(
        (kMaxShared - shared_bytes(*whole_pixels)) / whole_pixels->stage_bytes, kMaxStages));
    if (plan.stages < kMinStages) return;
    const int64_t tiles = whole_pixels->blocks();
    plan.estimated_ms = HUGE_VAL;
    Plan best = plan;
    int64_t tried = 0;
    for (int waves = 1; waves <= kMaxWaves; ++waves) {
      const int64_t splits = std::clamp<int64_t>(int64_t{device.multiprocessors} * waves / tiles, 1,
                                                 whole_pixels->strips);
      if (splits == tried) continue;
      tried = splits;
      plan.splits = static_cast<int>(splits);
      const std::optional<Arguments> args = make_arguments(problem, plan);
      if (!args) continue;
      plan.splits = args->splits;
      plan.workspace_bytes = workspace_bytes(*args, with_bias);
      if (plan.splits > 1 && plan.workspace_bytes > kMaxWorkspace) continue;
      plan.estimated_ms = estimate_ms(problem, plan, *args, step_cycles, device);
      if (plan.estimated_ms < best.estimated_ms) best = plan;
    }
    if (!std::isinf(best.estimated_ms)) to.push_back(best);
  };
  const auto faster = [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; };
  for (const Candidate& candidate : kCandidates) {
    for_each_arrangement(problem, candidate.instance, [&](Plan plan) {
      plan.with_bias = with_bias;
      for (const Share share : {Share::kChannels, Share::kPixels}) {
        plan.share = share;
        std::vector<Plan> of_segments;
        for (const int segment : kSegmentPixels) {
          plan.segment = segment;
          if (share == Share::kPixels && segment % (4 * kMathGroups) != 0) continue;
          add(plan, candidate.step_cycles, of_segments);
        }
        std::stable_sort(of_segments.begin(), of_segments.end(), faster);
        if (of_segments.size() > kPlansOfColumns) of_segments.resize(kPlansOfColumns);
        plans.insert(plans.end(), of_segments.begin(), of_segments.end());
      }
    });
  }
  std::stable_sort(plans.begin(), plans.end(), faster);
  return plans;
}

}  // namespace haloconv::sm90::wgrad
