#include "conv2d/families/halo/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "chip/waves.h"
#include "conv2d/families/halo/copied_shape.h"
#include "conv2d/families/halo/estimate.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/folded_work.h"
#include "conv2d/families/halo/stages.h"
#include "conv2d/families/halo/tiles.h"
#include "conv2d/families/halo/tiling.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

namespace {

constexpr int kSplitChoices = 4;  // 1, 2, 4 and 8
static_assert(1 << (kSplitChoices - 1) == kMaxSplits);

// Elements from the first of some images to the last's end, channels apart.
bool spans_32_bits(const Strides& s, int64_t images, int64_t h, int64_t w) {
  return (images - 1) * s.n + h * s.h + w * s.w <= INT32_MAX;
}

using OfSplits = std::array<double, kSplitChoices>;

// Tiles of one instance of the kernel, those whose warpgroups share out channels or those whose do
// not.
struct TileGroup {
  int32_t fold, first_tile, end_tile;
  bool shares_channels;
  int32_t row_tiles;  // of a group's accumulators
  // By splits; pack_ms: to pack the filters.
  std::array<int64_t, kSplitChoices> workspace_bytes;
  OfSplits pack_ms;
  // Lower bounds for all of its tiles. That of the launch of the first pair of shapes stands at
  // this place of leasts_, and those of the other pairs follow it.
  size_t first_least;
  OfSplits all_least_ms;  // of all kernels
  OfSplits wave_ms;       // of a wave of tiles of the first launch
  double least_ms;        // of all kernels with any splits
};

// How many tiles a fold's only launch has, at most what a launch may have. 0 where there are
// several launches, each of which says little, or where tiles run on from row to row.
double tiles_of_launch(const FoldedWork& fold, const Tile& tile, const TileCounts& counts) {
  if (fold.pairs.size() > 1 || is_flat(tile)) return 0;
  const int32_t rows = fold.rows.front()->window.axis.outputs;
  const int32_t columns = fold.columns.front()->window.axis.outputs;
  const double tiles = static_cast<double>(fold.problem.gather.groups) * counts.row_tiles *
                       counts.image_tiles * static_cast<double>(ceil_div_32(rows, counts.rows)) *
                       ceil_div_32(columns, counts.columns);
  return std::min(tiles, double{INT32_MAX});
}

class Search {
 public:
  Search(const Conv2dProblem& problem, Direction direction, bool precise, const Chip& chip,
         BestOfKinds& best)
      : problem_(problem),
        rates_(chip),
        tiles_(tiles_of(precise)),
        facts_(facts_of(precise)),
        best_(best) {
    plan_.direction = direction;
    plan_.type = problem.type;
    plan_.precise = precise;
    const TappedPhases phases = tapped_phases(problem, direction);
    if (static_cast<int64_t>(phases.count()) < phase_count(problem, direction)) {
      zeros_ms_ = estimate_zeros_ms(problem, direction, chip);
    }
    for (const FoldChoice& choice : folds_of(make_gather(problem, direction), phases)) {
      auto folded = make_folded(problem, direction, precise, phases, choice);
      if (!folded) continue;
      const double read = read_bytes(problem, direction) * static_cast<double>(phases.count()) /
                          static_cast<double>(folded->launches.size());
      folds_.push_back(make_folded_work(choice, *std::move(folded), read));
      of_pairs_.resize(std::max(of_pairs_.size(), folds_.back().works.size()));
    }
    if (folds_.empty()) return;
    const int32_t chunks = folds_.front().problem.chunks;
    for (int i = 0; i < kSplitChoices; ++i) {
      split_chunks_[i] = ceil_div_32(chunks, 1 << i);
      at_once_[i] = rates_.at_once(1 << i);
      if (((1 << i) - 1) * split_chunks_[i] >= chunks) break;  // one would be idle
      ++split_choices_;
    }
    for (int i = 0, images = 1; images <= kMostImages; ++i, images *= 2) {
      spans_32_bits_[i] = spans_32_bits(problem.input, images, problem.h, problem.w) &&
                          spans_32_bits(problem.output, images, problem.p(), problem.q());
    }
  }

  std::vector<Found> run() {
    std::vector<TileGroup> groups = make_groups();
    std::sort(groups.begin(), groups.end(),
              [](const TileGroup& a, const TileGroup& b) { return a.least_ms < b.least_ms; });
    for (const TileGroup& group : groups) {
      if (!best_.may_keep(group.least_ms)) break;
      set_rests(group);
      for (int32_t tile = group.first_tile; tile < group.end_tile; ++tile) {
        if ((tiles_[tile].share == Share::kChannels) == group.shares_channels) add(group, tile);
      }
    }
    return std::move(found_);
  }

 private:
  static constexpr int kMostImages = 8;

  int splits_of(int32_t tile) const { return facts_[tile].may_split ? split_choices_ : 1; }

  std::vector<TileGroup> make_groups() {
    std::vector<TileGroup> groups;
    for (int32_t fold = 0; fold < std::ssize(folds_); ++fold) {
      for (int32_t first = 0, end = 0; first < std::ssize(tiles_); first = end) {
        end = first;
        const Tile& tile = tiles_[first];
        while (end < std::ssize(tiles_) && tiles_[end].width == tile.width &&
               tiles_[end].instructions == tile.instructions && tiles_[end].copied == tile.copied) {
          ++end;
        }
        for (const bool shares_channels : {true, false}) {
          groups.push_back(make_group({.fold = fold,
                                       .first_tile = first,
                                       .end_tile = end,
                                       .shares_channels = shares_channels,
                                       .row_tiles = 0,
                                       .workspace_bytes = {},
                                       .pack_ms = {},
                                       .first_least = 0,
                                       .all_least_ms = {},
                                       .wave_ms = {},
                                       .least_ms = HUGE_VAL}));
        }
      }
    }
    return groups;
  }

  TileGroup make_group(TileGroup group) {
    FoldedWork& fold = folds_[group.fold];
    plan_.tile = tiles_[group.first_tile];
    plan_.tile.share = group.shares_channels ? Share::kChannels : Share::kImages;
    const int32_t row_groups = group.shares_channels ? kMathGroups : 1;
    group.row_tiles = row_tiles_of(fold.problem, plan_.tile);
    group.first_least = leasts_.size();
    leasts_.resize(leasts_.size() + fold.works.size());
    OfSplits* const leasts = &leasts_[group.first_least];
    for (int i = 0; i < splits_of(group.first_tile); ++i) {
      plan_.splits = 1 << i;
      group.workspace_bytes[i] = fold.workspace_bytes(int64_t{group.row_tiles} * row_groups,
                                                      plan_.splits, split_chunks_[i]);
      group.pack_ms[i] = estimate_pack_ms(fold.choice.count, group.workspace_bytes[i], rates_);
      if (best_.count() == BestOfKinds::kAll) continue;
      for (size_t pair = fold.works.size(); pair-- > 0;) {
        Work& work = fold.works[pair];
        set_splits(i, work);
        const Least least = least_of(plan_, work, fold.problem.folded_rows, rates_);
        leasts[pair][i] = least.ms;
        group.wave_ms[i] = least.wave_ms;
      }
      double ms = group.pack_ms[i] + zeros_ms_;
      for (const int32_t pair : fold.pairs) ms += leasts[pair][i];
      group.all_least_ms[i] = ms;
      group.least_ms = std::min(group.least_ms, ms);
    }
    return group;
  }

  // Of all its tiles.
  void set_rests(const TileGroup& group) {
    const std::vector<int32_t>& pairs = folds_[group.fold].pairs;
    rest_ms_.resize(pairs.size() + 1);
    rest_ms_.back().fill(zeros_ms_);
    for (size_t launch = pairs.size(); launch-- > 0;) {
      const OfSplits& least = leasts_[group.first_least + pairs[launch]];
      for (int i = 0; i < split_choices_; ++i) {
        rest_ms_[launch][i] = rest_ms_[launch + 1][i] + least[i];
      }
    }
  }

  void set_splits(int choice, Work& work) const {
    work.split_chunks = split_chunks_[choice];
    work.at_once = at_once_[choice];
  }

  // A tile, of which the launches are counted one by one, as they are asked for.
  struct Trial {
    const TileGroup& group;
    FoldedWork& fold;
    const Tile& tile;
    int kind;
    int32_t number;
    TileCounts counts;
  };

  // The splits of a tile. Most take too long, so that only what the estimate needs is worked out
  // first.
  void add(const TileGroup& group, int32_t tile_index) {
    const TileFacts& facts = facts_[tile_index];
    const int kind = group.fold * kKindsOfFold + facts.kind;
    if (!best_.may_keep(group.least_ms, kind) || !spans_32_bits_[facts.log_images]) return;
    const Tile& tile = tiles_[tile_index];
    FoldedWork& fold = folds_[group.fold];
    const Trial trial{.group = group,
                      .fold = fold,
                      .tile = tile,
                      .kind = kind,
                      .number = ++trials_,
                      .counts = make_counts(fold.problem, tile, group.row_tiles)};
    plan_.tile = tile;
    const double tiles = tiles_of_launch(fold, tile, trial.counts);
    int32_t stages = -1;  // not yet known
    for (int i = 0; i < splits_of(tile_index); ++i) {
      const double by_tiles = group.pack_ms[i] + kLaunchMs + zeros_ms_ +
                              waves_of(tiles, at_once_[i]) * group.wave_ms[i];
      if (!best_.may_keep(std::max(group.all_least_ms[i], by_tiles), kind)) continue;
      plan_.splits = 1 << i;
      const std::optional<double> ms = estimate(trial, i);
      if (!ms) return;
      if (!best_.may_keep(*ms, kind)) continue;
      if (stages < 0) stages = stages_of(trial);
      if (stages == 0) return;
      best_.add(*ms, kind);
      found_.push_back({.estimated_ms = *ms,
                        .order = group.fold * kMaxOrderOfFold + tile_index * kSplitChoices + i,
                        .kind = kind,
                        .tile = tile_index,
                        .stages = stages,
                        .splits = plan_.splits,
                        .fold = fold.choice,
                        .workspace_bytes = group.workspace_bytes[i]});
    }
  }

  // All launches, that of the packing and that of zeros; infinity as soon as they are seen to take
  // too long. None where a launch cannot have the tile.
  std::optional<double> estimate(const Trial& trial, int split_choice) {
    FoldedWork& fold = trial.fold;
    const int32_t number = trial.number * kSplitChoices + split_choice;
    double ms = trial.group.pack_ms[split_choice];
    for (size_t launch = 0; launch < fold.pairs.size(); ++launch) {
      if (!best_.may_keep(ms + rest_ms_[launch][split_choice], trial.kind)) return HUGE_VAL;
      const int32_t pair = fold.pairs[launch];
      OfPair& of_pair = of_pairs_[pair];
      if (of_pair.estimated_for != number) {
        if (of_pair.counted_for != trial.number && !count(trial, pair)) return std::nullopt;
        set_splits(split_choice, fold.works[pair]);
        of_pair.estimated_for = number;
        of_pair.ms = estimate_ms(plan_, fold.works[pair], rates_);
      }
      ms += of_pair.ms;
    }
    return zeros_ms_ > 0 ? ms + zeros_ms_ : ms;
  }

  // The axes of the launch of a pair of shapes; null where it cannot have the tile.
  struct Axes {
    const AxisPart *row, *column;
  };
  Axes axes_of(const Trial& trial, int32_t pair) {
    const FoldedProblem& problem = trial.fold.problem;
    const AxisPart* const row = trial.fold.rows[pair / problem.column_shapes];
    const AxisPart* const column = trial.fold.columns[pair % problem.column_shapes];
    if (!is_flat(trial.tile)) return {row, column};
    flat_ = flat_parts(problem, trial.tile, *row, *column);
    return flat_ ? Axes{&flat_->row, &flat_->column} : Axes{nullptr, nullptr};
  }
  const WindowShape& window_of_columns(const Trial& trial, const Axes& axes) const {
    return trial.fold.problem.window_of(*axes.column, trial.tile.width);
  }

  // What the tile makes of the work of a pair of shapes. False where it cannot have the tile.
  bool count(const Trial& trial, int32_t pair) {
    of_pairs_[pair].counted_for = trial.number;
    const Axes axes = axes_of(trial, pair);
    if (axes.row == nullptr) return false;
    const TileCounts& counts = trial.counts;
    const std::optional<Tiling> tiling = make_tiling(
        trial.fold.problem, trial.tile, counts, *axes.row, *axes.column,
        make_axis_tiling(axes.row->window, counts.rows),
        make_columns_tiling(window_of_columns(trial, axes), trial.tile, counts.columns));
    if (!tiling || kLeastStages * stage_bytes(tiling->window_cells) > kMaxShared) return false;
    Work& work = trial.fold.works[pair];
    work.tiles = tiling->tiles;
    work.window_cells = tiling->window_cells;
    work.tile_columns = counts.columns;
    work.one_line = is_line(trial.tile) && work.destination_w == 1;
    work.bytes_ms = memory_ms(plan_, work, rates_);
    return true;
  }

  int32_t stage_bytes(int32_t window_cells) const {
    return window_cells * terms_of(plan_) * kChunkBytes;
  }

  // How many windows a block has in all launches, which are counted; 0 where shared memory holds
  // too few, or where a launch cannot have the tile.
  int32_t stages_of(const Trial& trial) {
    StageCount stages(trial.tile, problem_.type, plan_.precise);
    for (int32_t pair = 0; pair < std::ssize(trial.fold.works); ++pair) {
      const FoldedProblem& problem = trial.fold.problem;
      const Work& work = trial.fold.works[pair];
      const Axes axes = axes_of(trial, pair);
      if (!is_in_reach(problem, trial.tile, trial.counts, *axes.row, *axes.column)) return 0;
      const int32_t entries = entries_of(work.window_cells, window_of_columns(trial, axes).even);
      const auto others = static_cast<int32_t>(
          make_layout(0, trial.tile, problem.element_bytes, entries, work.taps).end +
          (trial.tile.copied ? kCopiedAlignment : 0));
      stages.add(stage_bytes(work.window_cells), others, work.taps);
    }
    return stages.count();
  }

  static constexpr int32_t kMaxOrderOfFold = 1 << 20;

  const Conv2dProblem& problem_;
  const Rates rates_;
  const std::vector<Tile>& tiles_;
  const std::vector<TileFacts>& facts_;
  BestOfKinds& best_;
  std::vector<Found> found_;
  Plan plan_;  // what is being looked at
  double zeros_ms_ = 0;
  std::vector<FoldedWork> folds_;
  std::array<int32_t, kSplitChoices> split_chunks_{};
  OfSplits at_once_{};  // clusters
  int split_choices_ = 0;
  std::array<bool, 4> spans_32_bits_{};  // 1, 2, 4 and 8 images
  std::optional<FlatParts> flat_;        // of axes_of()
  std::vector<OfSplits> leasts_;         // of all groups
  // Of the group that is looked at: a lower bound of what each launch takes with all after it.
  std::vector<OfSplits> rest_ms_;
  // What is known of each pair of shapes, and for which trial, and which trial's splits.
  struct OfPair {
    int32_t counted_for = 0, estimated_for = 0;
    double ms = 0;
  };
  std::vector<OfPair> of_pairs_;
  int32_t trials_ = 0;
};

}  // namespace

std::vector<Found> search_tiles(const Conv2dProblem& problem, Direction direction, bool precise,
                                const Chip& chip, BestOfKinds& best) {
  return Search(problem, direction, precise, chip, best).run();
}

}  // namespace haloconv::halo
