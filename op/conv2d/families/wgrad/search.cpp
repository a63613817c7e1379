#include "conv2d/families/wgrad/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

constexpr size_t kMostArrangements = 32;  // or hardly more

constexpr int64_t kMaxWorkspace = int64_t{48} << 20;
constexpr int kMaxWaves = 4;
constexpr int kGoodRows = 64, kFewestRows = 31;  // of the walks of interleaved splits
constexpr double kMostIdle = 0.01;
constexpr double kRounding = 1e-9;  // of a bound: sums are added up in another order

}  // namespace

bool fits(Share share, int segment, int vector) {
  return segment % (share == Share::kPixels ? vector * kMathGroups : vector) == 0;
}

Search::Search(const Conv2dProblem& problem, const Chip& chip, bool with_bias, bool precise,
               BestOfGroups& best)
    : problem_(problem),
      chip_(chip),
      with_bias_(with_bias),
      precise_(precise),
      rates_(problem.bytes(), chip),
      start_(start_arguments(problem, precise)),
      best_(best),
      most_cycles_(HUGE_VAL) {
  arrangements_.reserve(kMostArrangements);
  choices_.reserve(kSegmentChoices);
  choices_of_halves_.reserve(kSegmentChoices);
  for (int i = 0; i < kSegmentChoices; ++i) {
    const int segment = kSegmentPixels[i];
    if (!fits(Share::kChannels, segment, start_.segments)) continue;
    walks_[i] = make_walks(start_, segment, 0);
    steps_[i] = mean_steps(start_.q, segment, segment);
    steps_of_half_[i] = mean_steps(start_.q, segment, segment / kMathGroups);
    if (walks_[i].strips == 0) continue;
    choices_.push_back(i);
    if (fits(Share::kPixels, segment, start_.segments)) choices_of_halves_.push_back(i);
  }
  set_bringing(Share::kChannels);
  set_bringing(Share::kPixels);
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

// Of tiles with so many rows of grad_output as this share has.
void Search::set_bringing(Share share) {
  Arguments args = start_;
  set_share(share, args);
  for (const int i : choices_) {
    args.segment = kSegmentPixels[i];
    Bringing& bringing = bringing_[share == Share::kChannels][i];
    set_boxes(false, args);
    bringing.by_loads = copies_of(args);
    bringing.least_cycles = bringing.by_loads.cycles_with(0);
    bringing.has_boxes = problem_.type == DataType::kFloat32 && set_boxes(true, args);
    if (!bringing.has_boxes) continue;
    bringing.by_boxes = copies_of(args);
    bringing.least_cycles = std::min(bringing.least_cycles, bringing.by_boxes.cycles_with(0));
  }
}

// Whether shared memory holds a block with the shortest segments.
bool Search::fits_at_all(const Plan& plan, Arguments& args) const {
  int shortest = 0;
  while (kSegmentPixels[shortest] != plan.segment) ++shortest;
  set_columns(plan.instance, plan.mma_channels, plan.tile_runs, plan.tile_groups, args);
  set_share(plan.share, args);
  return set_walks(walks_[shortest], args) && set_splits(walks_[shortest], 1, args) &&
         set_segment(plan.segment, false, args) && set_boxes(false, args) &&
         set_stages(kMinStages, args);
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
    // An instruction's columns lie at one distance: taps of many channels must be neighbours.
    if (instance.width > mma_channels && mma_channels > 8 && start_.shift_step != 1) continue;
    Arguments args = start_;
    if (!fits_at_all(plan, args)) continue;
    const int64_t groups = ceil_div(args.channels, mma_channels);
    // The fewest blocks; of these, with most taps, which share a window.
    int64_t fewest = INT64_MAX;
    for (int runs = std::min(instructions, args.runs); runs >= 1; --runs) {
      const int64_t tile_groups = std::min<int64_t>(instructions / runs, groups);
      const int64_t tiles = ceil_div(args.runs, runs) * ceil_div(groups, tile_groups);
      if (tiles >= fewest) continue;
      fewest = tiles;
      plan.tile_runs = runs;
      plan.tile_groups = static_cast<int>(tile_groups);
    }
    // One warpgroup would do.
    if (plan.tile_runs * plan.tile_groups <= instructions / 2 && shares_columns) continue;
    set_columns(instance, mma_channels, plan.tile_runs, plan.tile_groups, args);
    Arrangement& made = arrangements_.emplace_back(plan, step_cycles, args);
    for (const int i : choices_) {
      made.load_cycles[i] = load_cycles(args, kSegmentPixels[i], walks_[i]);
    }
  }
}

std::vector<Found> Search::run() {
  std::vector<Group> groups;
  groups.reserve(2 * arrangements_.size());
  for (int32_t i = 0; i < std::ssize(arrangements_); ++i) {
    const bool shares_columns = arrangements_[i].plan.share == Share::kColumns;
    for (const Share share : {Share::kChannels, Share::kPixels, Share::kColumns}) {
      if (shares_columns != (share == Share::kColumns)) continue;
      groups.push_back(make_group(static_cast<int32_t>(groups.size()), i, share));
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.least_ms < b.least_ms; });
  for (const Group& group : groups) {
    if (group.least_ms * (1 - kRounding) > best_.most_ms()) break;
    most_cycles_ = rates_.cycles_within(best_.most_ms(), group.partial_ms);
    add_group(group);
  }
  return std::move(found_);
}

Search::Group Search::make_group(int32_t index, int32_t arrangement, Share share) {
  Group group{.index = index,
              .arrangement = arrangement,
              .share = share,
              .cycles_of = {},
              .partial_ms = 0,
              .least_ms = HUGE_VAL};
  Arguments& args = arrangements_[arrangement].args;
  set_share(share, args);
  const double tiles = static_cast<double>(args.groups) * args.column_tiles() * args.row_tiles;
  const double of_multiprocessor = tiles / rates_.multiprocessors;
  double least_cycles_of_all = HUGE_VAL, fewest_strips = HUGE_VAL;
  for (const int i : choices_of(share)) {
    const double strip =
        strip_of(arrangements_[arrangement], share, i).with(bringing(share, i).least_cycles);
    group.cycles_of[i] = least_cycles(of_multiprocessor * walks_[i].strips, strip);
    least_cycles_of_all = std::min(least_cycles_of_all, group.cycles_of[i]);
    fewest_strips = std::min<double>(fewest_strips, walks_[i].strips);
  }
  if (choices_of(share).empty()) return group;
  // As many splits as fill the multiprocessors once; where the last strips of some are missing,
  // there are fewer.
  const double wanted = std::clamp(std::floor(1 / of_multiprocessor), 1.0, fewest_strips);
  const double splits = wanted * fewest_strips / (wanted + fewest_strips);
  const double partials = splits * (share == Share::kPixels ? kMathGroups : 1);
  group.partial_ms =
      partials * static_cast<double>(partial_bytes(args, with_bias_)) / rates_.partial_bytes_per_ms;
  group.least_ms = rates_.ms_of(least_cycles_of_all, group.partial_ms);
  return group;
}

void Search::add_group(const Group& group) {
  Arguments args = arrangements_[group.arrangement].args;
  set_share(group.share, args);
  // The fastest first, of which a few are enough.
  std::vector<int> segments = choices_of(group.share);
  std::ranges::sort(segments, {}, [&](int i) { return group.cycles_of[i]; });
  for (const int i : segments) {
    if (group.cycles_of[i] > most_cycles_) break;
    if (set_walks(walks_[i], args) && set_splits(walks_[i], 1, args) &&
        set_segment(kSegmentPixels[i], false, args)) {
      add_segment(group, i, args);
    }
  }
}

void Search::keep(const Group& group, const Found& found) {
  best_.add(found.estimated_ms, found.group);
  most_cycles_ = rates_.cycles_within(best_.most_ms(group.index), group.partial_ms);
  found_.push_back(found);
}

// Tries as many stages as shared memory holds, then fewer, which leave a larger L1 cache, then
// grad_output in boxes.
void Search::add_segment(const Group& group, int segment, Arguments& args) {
  const StripCycles strip_cycles = strip_of(arrangements_[group.arrangement], group.share, segment);
  // A multiprocessor's share.
  const double tiles = static_cast<double>(args.groups) * args.row_tiles * args.column_tiles();
  const double strips = tiles * args.strips / rates_.multiprocessors;
  // Whether some stages' plans may be kept, by what a strip takes at least.
  const auto may_keep = [&](const Copies& copies) {
    return least_cycles(strips, strip_cycles.with(copies.cycles_with(0))) <= most_cycles_;
  };
  const Bringing& by = bringing(group.share, segment);
  if (may_keep(by.by_loads) && set_boxes(false, args) && set_stages(0, args)) {
    const int most = most_stages(args, kMaxShared), fewer = most_stages(args, kLessShared);
    add_stages(group, segment, 0, most, strips, strip_cycles, by.by_loads, args);
    if (fewer < most) add_stages(group, segment, 1, fewer, strips, strip_cycles, by.by_loads, args);
  }
  if (by.has_boxes && may_keep(by.by_boxes) && set_boxes(true, args) && set_stages(0, args)) {
    add_stages(group, segment, 2, most_stages(args, kMaxShared), strips, strip_cycles, by.by_boxes,
               args);
  }
}

// Finds the best number of splits.
void Search::add_stages(const Group& group, int segment, int try_of_segment, int stages,
                        double strips, const StripCycles& strip_cycles, const Copies& copies,
                        Arguments& args) {
  if (stages < kMinStages || !set_stages(stages, args)) return;
  const Walks& walks = walks_[segment];
  const double strip = strip_cycles.with(copies.cycles_with(shared_bytes(args)));
  if (least_cycles(strips, strip) > most_cycles_) return;
  const int64_t tiles = int64_t{args.groups} * args.row_tiles * args.column_tiles();
  const int64_t bytes = partial_bytes(args, with_bias_);
  Found best{.estimated_ms = HUGE_VAL};
  int64_t tried = 0;
  for (int waves = 1; waves <= kMaxWaves; ++waves) {
    const int64_t splits =
        std::clamp<int64_t>(int64_t{chip_.multiprocessors} * waves / tiles, 1, walks.strips);
    if (splits == tried) continue;
    tried = splits;
    if (!set_splits(walks, static_cast<int>(splits), args)) continue;
    const int64_t workspace = args.partials * bytes;
    if (args.splits > 1 && workspace > kMaxWorkspace) continue;
    const double ms = estimate_ms(rates_, workspace, args, strip);
    if (ms >= best.estimated_ms) continue;
    best = {.estimated_ms = ms,
            .group = group.index,
            .order = segment * kTriesOfSegment + try_of_segment,
            .arrangement = group.arrangement,
            .share = group.share,
            .segment = kSegmentPixels[segment],
            .stages = stages,
            .splits = args.splits,
            .boxes = args.boxes,
            .workspace_bytes = workspace};
  }
  if (std::isinf(best.estimated_ms)) return;
  keep(group, best);
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
  if (plan.splits > 1 && is_bound_by_bytes(rates_, plan.estimated_ms)) interleave(plan);
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
    const Walks walks = make_walks(args, plan.segment, walk_rows);
    if (!set_walks(walks, args) || !set_splits(walks, plan.splits, args) || args.splits != splits ||
        args.split_strips > (1 + kMostIdle) * split_strips || !set_stages(plan.stages, args)) {
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
