#include "conv2d/families/wgrad/search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "conv2d/families/wgrad/argument_steps.h"
#include "conv2d/families/wgrad/estimate.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::wgrad {

namespace {

// An instance of the kernel, and what a step of both warpgroups takes.
struct Candidate {
  Instance instance;
  double step_cycles;
};

// Measured on an H200: benchmarks/NOTES.md, "weight gradient in TF32 on Hopper".
constexpr Candidate kCandidates[] = {
    {{9, 32}, 324}, {{6, 48}, 297}, {{5, 56}, 280}, {{3, 48}, 145}, {{4, 64}, 256}};

// With Share::kColumns; the last two in TF32 alone, their steps by the others'.
constexpr Candidate kColumnsCandidates[] = {
    {{9, 32}, 324}, {{6, 48}, 297}, {{5, 56}, 280}, {{5, 48}, 249}, {{5, 40}, 210}};
constexpr size_t kColumnsInTf32Alone = 2;

// The instances for precise plans, which keep two sets of sums.
constexpr Candidate kPreciseCandidates[] = {{{3, 48}, 435}, {{2, 56}, 340}, {{2, 72}, 435}};

constexpr int64_t kMaxWorkspace = int64_t{48} << 20;
constexpr int kMaxWaves = 4;
constexpr int kGoodRows = 64, kFewestRows = 31;  // of the walks of interleaved splits
constexpr double kMostIdle = 0.01;

}  // namespace

bool fits(Share share, int segment, DataType type) {
  const int vector = segments_of(size_of(type));  // 16 bytes
  return segment % (share == Share::kPixels ? vector * kMathGroups : vector) == 0;
}

Search::Search(const Conv2dProblem& problem, const Chip& chip, bool with_bias, bool precise,
               BestOfGroups& best)
    : problem_(problem),
      chip_(chip),
      with_bias_(with_bias),
      precise_(precise),
      bytes_(problem.bytes()),
      best_(best) {
  for (const Candidate& candidate :
       precise ? std::span<const Candidate>(kPreciseCandidates) : std::span(kCandidates)) {
    add_arrangements(candidate.instance, candidate.step_cycles, false);
  }
  if (precise) return;
  std::span<const Candidate> candidates(kColumnsCandidates);
  if (problem.type != DataType::kFloat32) {
    candidates = candidates.first(candidates.size() - kColumnsInTf32Alone);
  }
  for (const Candidate& candidate : candidates) {
    add_arrangements(candidate.instance, candidate.step_cycles, true);
  }
}

// Each arrangement of an instance's columns.
void Search::add_arrangements(const Instance& instance, double step_cycles, bool shares_columns) {
  const int instructions = instance.instructions * (shares_columns ? kMathGroups : 1);
  for (int mma_channels = 8; mma_channels <= instance.width; mma_channels += 8) {
    if (instance.width % mma_channels != 0) continue;
    Plan plan{.precise = precise_, .instance = instance, .mma_channels = mma_channels};
    if (shares_columns) plan.share = Share::kColumns;
    plan.tile_runs = 1;
    plan.tile_groups = 1;
    plan.segment = segments_of(size_of(problem_.type));
    plan.with_bias = with_bias_;
    const std::optional<Arguments> made = make_arguments(problem_, plan);
    if (!made) continue;
    // An instruction's columns lie at one distance: taps of many channels must be neighbours.
    if (made->mma_taps > 1 && mma_channels > 8 && made->shift_step != 1) continue;
    const int64_t groups = ceil_div(made->channels, mma_channels);
    // The fewest blocks; of these, with most taps, which share a window.
    int64_t fewest = INT64_MAX;
    for (int runs = std::min(instructions, made->runs); runs >= 1; --runs) {
      const int64_t tile_groups = std::min<int64_t>(instructions / runs, groups);
      const int64_t tiles = ceil_div(made->runs, runs) * ceil_div(groups, tile_groups);
      if (tiles >= fewest) continue;
      fewest = tiles;
      plan.tile_runs = runs;
      plan.tile_groups = static_cast<int>(tile_groups);
    }
    // One warpgroup would do.
    if (plan.tile_runs * plan.tile_groups <= instructions / 2 && shares_columns) continue;
    arrangements_.push_back({plan, step_cycles, *made});
    set_columns(instance, mma_channels, plan.tile_runs, plan.tile_groups,
                arrangements_.back().args);
  }
}

std::vector<Found> Search::run() {
  if (arrangements_.empty()) return {};
  for (const int segment : kSegmentPixels) {
    walks_.push_back(make_walks(arrangements_.front().args, segment, 0));
  }
  std::vector<Group> groups;
  for (int32_t i = 0; i < std::ssize(arrangements_); ++i) {
    const bool shares_columns = arrangements_[i].plan.share == Share::kColumns;
    for (const Share share : {Share::kChannels, Share::kPixels, Share::kColumns}) {
      if (shares_columns != (share == Share::kColumns)) continue;
      groups.push_back(
          {static_cast<int32_t>(groups.size()), i, share, least_ms(arrangements_[i], share)});
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.least_ms < b.least_ms; });
  for (const Group& group : groups) {
    if (!best_.may_keep(group.least_ms)) break;
    add_group(group);
  }
  return std::move(found_);
}

// A bound for all lengths of segments.
double Search::least_ms(const Arrangement& arrangement, Share share) const {
  Arguments args = arrangement.args;
  set_share(share, args);
  double least = HUGE_VAL;
  for (size_t i = 0; i < walks_.size(); ++i) {
    args.segment = kSegmentPixels[i];
    if (!fits(share, args.segment, problem_.type) || walks_[i].strips == 0) continue;
    const double strip = least_strip_cycles(args, arrangement.step_cycles);
    least = std::min(least, wgrad::least_ms(bytes_, args, walks_[i].strips, strip, chip_));
  }
  return least;
}

void Search::add_group(const Group& group) {
  const Arrangement& arrangement = arrangements_[group.arrangement];
  Arguments args = arrangement.args;
  set_share(group.share, args);
  for (size_t i = 0; i < walks_.size(); ++i) {
    if (!fits(group.share, kSegmentPixels[i], problem_.type)) continue;
    if (!set_splits(walks_[i], 1, args) || !set_segment(kSegmentPixels[i], args)) continue;
    const double strip = least_strip_cycles(args, arrangement.step_cycles);
    if (!best_.may_keep(wgrad::least_ms(bytes_, args, args.strips, strip, chip_))) continue;
    add_segment(group, static_cast<int>(i), args);
  }
}

// Tries as many stages as shared memory holds, then fewer, which leave a larger L1 cache, then
// grad_output in boxes.
void Search::add_segment(const Group& group, int segment, Arguments& args) {
  set_boxes(false, args);
  if (set_stages(0, args)) {
    const int most = most_stages(args, kMaxShared), fewer = most_stages(args, kLessShared);
    add_stages(group, segment, most, args);
    if (fewer < most && set_stages(0, args)) add_stages(group, segment, fewer, args);
  }
  if (problem_.type == DataType::kFloat32 && set_boxes(true, args) && set_stages(0, args)) {
    add_stages(group, segment, most_stages(args, kMaxShared), args);
  }
}

// Finds the best number of splits.
void Search::add_stages(const Group& group, int segment, int stages, Arguments& args) {
  if (stages < kMinStages || !set_stages(stages, args)) return;
  const Walks& walks = walks_[segment];
  const double strip = strip_cycles(args, arrangements_[group.arrangement].step_cycles);
  if (!best_.may_keep(wgrad::least_ms(bytes_, args, walks.strips, strip, chip_))) return;
  if (!set_splits(walks, 1, args)) return;
  const int64_t tiles = args.blocks();
  Found best{.estimated_ms = HUGE_VAL};
  int64_t tried = 0;
  for (int waves = 1; waves <= kMaxWaves; ++waves) {
    const int64_t splits =
        std::clamp<int64_t>(int64_t{chip_.multiprocessors} * waves / tiles, 1, walks.strips);
    if (splits == tried) continue;
    tried = splits;
    if (!set_splits(walks, static_cast<int>(splits), args)) continue;
    const int64_t workspace = workspace_bytes(args, with_bias_);
    if (args.splits > 1 && workspace > kMaxWorkspace) continue;
    const double ms = estimate_ms(bytes_, workspace, args, strip, chip_);
    if (ms >= best.estimated_ms) continue;
    best = {.estimated_ms = ms,
            .group = group.index,
            .order = static_cast<int32_t>(found_.size()),
            .arrangement = group.arrangement,
            .share = group.share,
            .segment = kSegmentPixels[segment],
            .stages = stages,
            .splits = args.splits,
            .boxes = args.boxes,
            .workspace_bytes = workspace};
  }
  if (std::isinf(best.estimated_ms)) return;
  best_.add(best.estimated_ms, group.index);
  found_.push_back(best);
}

Plan Search::plan_of(const Found& found) const {
  Plan plan = arrangements_[found.arrangement].plan;
  plan.share = found.share;
  plan.segment = found.segment;
  plan.boxes = found.boxes;
  plan.splits = found.splits;
  plan.stages = found.stages;
  plan.workspace_bytes = found.workspace_bytes;
  plan.estimated_ms = found.estimated_ms;
  if (plan.splits > 1 && is_bound_by_bytes(bytes_, plan.estimated_ms, chip_)) interleave(plan);
  return plan;
}

// Interleaves the splits if none of them is left idle by it: by walks of kGoodRows or the next
// fewer rows that allow it, or else by the shortest longer ones.
void Search::interleave(Plan& plan) const {
  Arguments args = make_arguments(problem_, plan).value();
  const int32_t splits = args.splits, split_strips = args.split_strips;
  const int64_t rows = ceil_div(args.p, args.row_step);
  const auto try_divided = [&](int64_t divisions) {
    const auto walk_rows = static_cast<int>(ceil_div(rows, divisions));
    if (!set_splits(make_walks(args, plan.segment, walk_rows), plan.splits, args) ||
        args.splits != splits || args.split_strips > (1 + kMostIdle) * split_strips ||
        !set_stages(plan.stages, args)) {
      return false;
    }
    plan.walk_rows = walk_rows;
    return true;
  };
  const int64_t good = ceil_div(rows, kGoodRows);
  for (int64_t divisions = good; ceil_div(rows, divisions) >= kFewestRows; ++divisions) {
    if (try_divided(divisions)) return;
  }
  for (int64_t divisions = good - 1; divisions > 0; --divisions) {
    if (try_divided(divisions)) return;
  }
}

}  // namespace haloconv::wgrad
