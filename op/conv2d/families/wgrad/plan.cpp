#include "conv2d/families/wgrad/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <ranges>
#include <span>

#include "chip/scale.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/rows_innermost.h"

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

// Of precise plans, which keep sums twice.
constexpr Candidate kPreciseCandidates[] = {{{3, 48}, 435}, {{2, 56}, 340}, {{2, 72}, 435}};

constexpr int kSegmentPixels[] = {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64};

// The model's constants, fitted to 2867 times on an H200, and kBoxRowCycles to 3240:
// benchmarks/NOTES.md. chip/scale.h scales the rates to other chips.
constexpr double kClockHz = 1.65e9;
constexpr double kBatchCycles = 690;   // for a load warp to bring a batch of cells
constexpr double kCopyCycles = 13;     // for the load warps to start 128 copies
constexpr double kRegisterCopies = 4;  // times as long: less than an asynchronous copy takes
// For the copy engine to bring a row of a box; the second of rows that begin at 8 bytes of 16.
constexpr double kBoxRowCycles[] = {0.3, 0.9};
// Copies of less than 16 bytes go through the L1 cache: so long its lines are taken.
constexpr double kCacheCycles = 700;
constexpr double kUnhidden = 0.45;      // of the work beside the longest
constexpr double kStripCycles = 710;    // of a strip beside its work
constexpr double kBlockCycles = 24500;  // first loads, last sums
constexpr double kBytesPerMs = 3.6e9;
constexpr double kPartBytesPerMs = 1.1e9;  // partial sums, there and back
constexpr double kLaunchMs = 0.006;        // two kernels
// What a block leaves of the multiprocessor's 256 KiB is the L1 cache: 28 KiB, or 92 where it takes
// no more than this.
constexpr int64_t kLessShared = int64_t{163} << 10;
constexpr double kCacheBytes = 28 << 10, kMoreCacheBytes = 92 << 10;
constexpr int64_t kMaxWorkspace = int64_t{48} << 20;
constexpr int kMaxWaves = 4;
constexpr int kFewestRows = 32;  // of walks that splits take in turns
constexpr double kMostIdle = 0.01;
constexpr int kPlansOfColumns = 3;  // kept for each arrangement of the columns

// To bring a strip of grad_output.
double copy_cycles(const Arguments& args) {
  const int64_t element_bytes = 16 / args.segments;
  if (args.boxes) {
    return kBoxRowCycles[args.row_maps - 1] * kBoxSegments * args.segment_boxes * args.tile_rows;
  }
  const int64_t rows = std::min(args.tile_rows, args.rows);
  const int64_t vectors = int64_t{args.segment} / args.output_vector * args.segments;
  const int64_t threads = std::min<int64_t>(vectors, kLoadThreads);  // of a row
  const double copies =
      static_cast<double>(ceil_div(vectors, threads) * ceil_div(rows, kLoadThreads / threads)) *
      kCopyCycles;
  if (args.output_vector * element_bytes == 16) return copies;
  const double cache = shared_bytes(args) <= kLessShared ? kMoreCacheBytes : kCacheBytes;
  const auto strip_bytes = static_cast<double>(rows * args.segment * 16);
  const bool by_registers = args.output_vector * element_bytes < 4;
  return std::max(by_registers ? kRegisterCopies * copies : copies,
                  strip_bytes / cache * kCacheCycles);
}

double estimate_ms(const Conv2dProblem& problem, const Plan& plan, const Arguments& args,
                   double step_cycles, const Chip& chip) {
  const double steps = args.group_pixels() / 2.0;
  // Of a strip on average: a walk's first has the whole window to load.
  const int32_t fresh = std::min(args.line_step, args.window_lines);
  const double lines = fresh + (args.window_lines - fresh) / static_cast<double>(args.walk_rows);
  const double batches = lines * args.quads() *
                         static_cast<double>(ceil_div(args.plane_columns, kBatchColumns)) /
                         kLoadWarps;
  const double copies = copy_cycles(args);
  const double work[] = {steps * step_cycles, batches * kBatchCycles, copies};
  const double longest = std::max({work[0], work[1], work[2]});
  const double strip = longest + kUnhidden * (work[0] + work[1] + work[2] - longest) + kStripCycles;
  const double waves = std::ceil(static_cast<double>(args.blocks()) / chip.multiprocessors);
  const double cycles = waves * (args.split_strips * strip + kBlockCycles);
  const double partial = static_cast<double>(plan.workspace_bytes);
  return std::hypot(cycles / (kClockHz * clock_scale(chip)) * 1e3,
                    problem.bytes() / (kBytesPerMs * memory_scale(chip))) +
         partial / (kPartBytesPerMs * memory_scale(chip)) + kLaunchMs;
}

bool is_bound_by_bytes(const Conv2dProblem& problem, const Plan& plan, const Chip& chip) {
  return problem.bytes() / (kBytesPerMs * memory_scale(chip)) > plan.estimated_ms / 2;
}

// Has the splits take walks in turns where that leaves none of them idle: the longest walks that
// do.
void take_turns(const Conv2dProblem& problem, Plan& plan) {
  if (plan.splits == 1) return;
  const Arguments whole = make_arguments(problem, plan).value();
  const int64_t rows = ceil_div(whole.p, whole.row_step);
  for (int64_t parts = 1; ceil_div(rows, parts) >= kFewestRows; ++parts) {
    Plan in_turns = plan;
    in_turns.walk_rows = static_cast<int>(ceil_div(rows, parts));
    const std::optional<Arguments> args = make_arguments(problem, in_turns);
    if (!args || args->splits != whole.splits ||
        args->split_strips > (1 + kMostIdle) * whole.split_strips) {
      continue;
    }
    plan = in_turns;
    return;
  }
}

// Each warpgroup takes whole vectors of pixels.
bool fits(Share share, int segment, DataType type) {
  const int vector = segments_of(size_of(type));  // 16 bytes
  return segment % (share == Share::kChannels ? vector : vector * kMathGroups) == 0;
}

// Calls body(plan) for each arrangement of an instance's columns.
template <class Body>
void for_each_arrangement(const Conv2dProblem& problem, const Instance& instance, bool precise,
                          Body body) {
  for (int slot_channels = 8; slot_channels <= instance.width; slot_channels += 8) {
    if (instance.width % slot_channels != 0) continue;
    Plan plan{.precise = precise, .instance = instance, .slot_channels = slot_channels};
    plan.tile_runs = 1;
    plan.tile_groups = 1;
    plan.segment = segments_of(size_of(problem.type));
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
  os << (plan.precise ? "wgrad precise slots=" : "wgrad slots=") << plan.instance.slots << 'x'
     << plan.instance.width << " of " << plan.instance.width / plan.slot_channels
     << " taps, tile=" << plan.tile_runs << 'x' << plan.tile_groups << " segment=" << plan.segment
     << " share=" << (plan.share == Share::kPixels ? "pixels" : "channels");
  if (plan.boxes) os << " boxes";
  if (plan.splits > 1) os << " splits=" << plan.splits;
  if (plan.walk_rows > 0) os << " in turns of " << plan.walk_rows << " rows";
  return os << " stages=" << plan.stages << " workspace=" << plan.workspace_bytes;
}

std::vector<Plan> make_plans(const Conv2dProblem& whole, const Chip& chip, bool with_bias,
                             bool tf32) {
  const Conv2dProblem problem = flattened(whole);
  const bool precise = problem.type == DataType::kFloat32 && !tf32;
  std::vector<Plan> plans;
  // The best number of splits for a plan that has no stages yet, with as many as so much shared
  // memory holds, but fewer than `below`; returns these, or 0 where there is no such number.
  const auto add = [&](Plan plan, int64_t shared, int below, double step_cycles,
                       std::vector<Plan>& to) {
    plan.splits = 1;
    const std::optional<Arguments> whole_pixels = make_arguments(problem, plan);
    if (!whole_pixels) return 0;
    plan.stages = most_stages(*whole_pixels, shared);
    if (plan.stages < kMinStages || plan.stages >= below) return 0;
    const int64_t tiles = whole_pixels->blocks();
    plan.estimated_ms = HUGE_VAL;
    Plan best = plan;
    int64_t tried = 0;
    for (int waves = 1; waves <= kMaxWaves; ++waves) {
      const int64_t splits = std::clamp<int64_t>(int64_t{chip.multiprocessors} * waves / tiles, 1,
                                                 whole_pixels->strips);
      if (splits == tried) continue;
      tried = splits;
      plan.splits = static_cast<int>(splits);
      const std::optional<Arguments> args = make_arguments(problem, plan);
      if (!args) continue;
      plan.splits = args->splits;
      plan.workspace_bytes = workspace_bytes(*args, with_bias);
      if (plan.splits > 1 && plan.workspace_bytes > kMaxWorkspace) continue;
      plan.estimated_ms = estimate_ms(problem, plan, *args, step_cycles, chip);
      if (plan.estimated_ms < best.estimated_ms) best = plan;
    }
    if (is_bound_by_bytes(problem, best, chip)) take_turns(problem, best);
    if (!std::isinf(best.estimated_ms)) to.push_back(best);
    return best.stages;
  };
  const auto faster = [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; };
  for (const Candidate& candidate :
       precise ? std::span<const Candidate>(kPreciseCandidates) : std::span(kCandidates)) {
    for_each_arrangement(problem, candidate.instance, precise, [&](Plan plan) {
      plan.with_bias = with_bias;
      for (const Share share : {Share::kChannels, Share::kPixels}) {
        plan.share = share;
        std::vector<Plan> of_segments;
        for (const int segment : kSegmentPixels) {
          plan.segment = segment;
          if (!fits(share, segment, problem.type)) continue;
          plan.stages = 0;
          const int most =
              add(plan, kMaxShared, kMaxStages + 1, candidate.step_cycles, of_segments);
          add(plan, kLessShared, most, candidate.step_cycles, of_segments);
          if (problem.type != DataType::kFloat32) continue;
          Plan with_boxes = plan;
          with_boxes.boxes = true;
          add(with_boxes, kMaxShared, kMaxStages + 1, candidate.step_cycles, of_segments);
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

Plan without_boxes(const Conv2dProblem& whole, Plan plan) {
  const Conv2dProblem problem = flattened(whole);
  const int longest = plan.segment;
  plan.boxes = false;
  for (const int segment : std::views::reverse(kSegmentPixels)) {
    if (segment > longest || !fits(plan.share, segment, problem.type)) continue;
    plan.segment = segment;
    plan.stages = 0;
    const std::optional<Arguments> args = make_arguments(problem, plan);
    if (!args) continue;
    plan.stages = most_stages(*args, kMaxShared);
    if (plan.stages >= kMinStages) break;
  }
  return plan;
}

}  // namespace haloconv::sm90::wgrad
