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
  int32_t fold;
  const std::vector<ListedTile>* tiles;
  bool shares_channels;
  int32_t row_tiles;  // of a group's accumulators
  int split_choices;
  // By splits; pack_ms: to pack the filters.
  std::array<int64_t, kSplitChoices> workspace_bytes;
  OfSplits pack_ms;
  OfSplits all_least_ms;       // lower bounds for all of its tiles: of all kernels
  double least_ms = HUGE_VAL;  // the same with any splits
};

// What a launch takes by the tiles of a group with some number of splits, and the least of it.
struct Instance {
  InstanceWork work;
  double least_ms;
};

// How many blocks there are along an axis, and the cells of a window, which stop counting where
// shared memory does not hold them.
struct AxisCount {
  double blocks;
  int32_t cells;
};
AxisCount count_of(const AxisTiling& tiling) {
  constexpr int32_t kTooMany = kMaxShared / kChunkBytes + 1;
  return {static_cast<double>(tiling.tiles), std::min(tiling.cells, kTooMany)};
}

// Of a fold, each shape's in the order of sizes_of().
struct AxisCounts {
  std::vector<AxisCount> rows, columns;
};
AxisCounts axis_counts_of(const FoldedWork& fold, const TileSizes& sizes) {
  AxisCounts counts;
  counts.rows.reserve(fold.rows.size() * sizes.rows.size());
  counts.columns.reserve(fold.columns.size() * sizes.columns.size());
  for (const AxisPart* const row : fold.rows) {
    for (const int32_t rows : sizes.rows) {
      counts.rows.push_back(count_of(make_axis_tiling(row->window, rows)));
    }
  }
  for (const AxisPart* const column : fold.columns) {
    for (const auto& [columns, width] : sizes.columns) {
      const WindowShape& window = fold.problem.window_of(*column, width);
      counts.columns.push_back(count_of(make_axis_tiling(window, columns)));
    }
  }
  return counts;
}

class Search {
 public:
  Search(const Conv2dProblem& problem, Direction direction, bool precise, const Chip& chip,
         BestOfKinds& best)
      : problem_(problem),
        rates_(chip),
        tiles_(tiles_of(precise)),
        facts_(facts_of(precise)),
        sizes_(sizes_of(precise)),
        best_(best) {
    plan_.direction = direction;
    plan_.type = problem.type;
    plan_.precise = precise;
    cut_sectors_ = cut_sectors(plan_);
    const TappedPhases phases = tapped_phases(problem, direction);
    if (static_cast<int64_t>(phases.count()) < phase_count(problem, direction)) {
      zeros_ms_ = estimate_zeros_ms(problem, direction, chip);
    }
    for (const FoldChoice& choice : folds_of(make_gather(problem, direction), phases)) {
      auto folded = make_folded(problem, direction, precise, phases, choice);
      if (!folded) continue;
      const double read = read_bytes(problem, direction) * static_cast<double>(phases.count()) /
                          static_cast<double>(folded->launches.size());
      folds_.push_back(make_folded_work(choice, *std::move(folded), read, rates_));
      counts_.push_back(axis_counts_of(folds_.back(), sizes_));
      of_pairs_.resize(std::max(of_pairs_.size(), folds_.back().works.size()));
    }
    if (folds_.empty()) return;
    instances_.resize(of_pairs_.size());
    found_.reserve(64);  // or hardly more
    const int32_t chunks = folds_.front().problem.chunks;
    for (int i = 0; i < kSplitChoices; ++i) {
      split_chunks_[i] = ceil_div_32(chunks, 1 << i);
      if (((1 << i) - 1) * split_chunks_[i] >= chunks) break;  // one would be idle
      ++split_choices_;
    }
    for (int i = 0, images = 1; images <= kMostImages; ++i, images *= 2) {
      spans_32_bits_[i] = spans_32_bits(problem.input, images, problem.h, problem.w) &&
                          spans_32_bits(problem.output, images, problem.p(), problem.q());
      image_tiles_[i] = static_cast<double>((folds_.front().problem.images + images - 1) >> i);
    }
  }

  std::vector<Found> run() {
    make_groups();
    std::vector<const TileGroup*> groups;
    groups.reserve(groups_.size());
    for (const TileGroup& group : groups_) groups.push_back(&group);
    std::sort(groups.begin(), groups.end(),
              [](const TileGroup* a, const TileGroup* b) { return a->least_ms < b->least_ms; });
    for (const TileGroup* group : groups) {
      if (group->least_ms > best_.most_ms()) break;
      begin(*group);
      for (const ListedTile& tile : *group->tiles) add(*group, tile);
    }
    return std::move(found_);
  }

 private:
  static constexpr int kMostImages = 8;

  void make_groups() {
    const std::vector<TilesOfInstance>& all = instances_of(plan_.precise);
    groups_.reserve(2 * all.size() * folds_.size());
    for (int32_t fold = 0; fold < std::ssize(folds_); ++fold) {
      for (const TilesOfInstance& tiles : all) {
        for (const bool shares_channels : {true, false}) {
          const std::vector<ListedTile>& of_group =
              shares_channels ? tiles.sharing_channels : tiles.others;
          if (of_group.empty()) continue;
          TileGroup& group = groups_.emplace_back();
          group.fold = fold;
          group.tiles = &of_group;
          group.shares_channels = shares_channels;
          group.split_choices = facts_[of_group.front().index].may_split ? split_choices_ : 1;
          set_group(group);
        }
      }
    }
  }

  void set_group(TileGroup& group) {
    const FoldedWork& fold = folds_[group.fold];
    const int32_t row_groups = group.shares_channels ? kMathGroups : 1;
    group.row_tiles = row_tiles_of(fold.problem, tiles_[group.tiles->front().index]);
    for (int i = 0; i < group.split_choices; ++i) {
      set_instances(group, i);
      group.workspace_bytes[i] =
          fold.workspace_bytes(int64_t{group.row_tiles} * row_groups, 1 << i, split_chunks_[i]);
      group.pack_ms[i] = estimate_pack_ms(fold.choice.count, group.workspace_bytes[i], rates_);
      double ms = group.pack_ms[i] + zeros_ms_;
      for (const int32_t pair : fold.pairs) ms += instances_[pair][i].least_ms;
      group.all_least_ms[i] = ms;
      group.least_ms = std::min(group.least_ms, ms);
    }
  }

  // Worked out again for the groups that are looked at: all groups have up to a megabyte.
  void set_instances(const TileGroup& group, int split_choice) {
    const std::vector<Work>& works = folds_[group.fold].works;
    plan_.tile = tiles_[group.tiles->front().index];
    plan_.splits = 1 << split_choice;
    for (size_t pair = 0; pair < works.size(); ++pair) {
      const Work& work = works[pair];
      Instance& instance = instances_[pair][split_choice];
      instance.work = make_instance_work(plan_, work, split_chunks_[split_choice], rates_);
      instance.least_ms = least_ms(plan_, instance.work, work, group.row_tiles, rates_);
    }
  }

  // What its tiles have in common, with the splits that are not too slow for all of them.
  void begin(const TileGroup& group) {
    const FoldedWork& fold = folds_[group.fold];
    const AxisCounts& counts = counts_[group.fold];
    fold_ = &fold;
    group_tiles_ = static_cast<double>(fold.problem.gather.groups) * group.row_tiles;
    for (int32_t pair = 0; pair < std::ssize(fold.works); ++pair) {
      of_pairs_[pair].rows = &counts.rows[row_of(fold, pair) * sizes_.rows.size()];
      of_pairs_[pair].columns = &counts.columns[column_of(fold, pair) * sizes_.columns.size()];
    }
    const std::vector<int32_t>& pairs = fold.pairs;
    rest_ms_.resize(pairs.size() + 1);
    rest_ms_.back().fill(zeros_ms_);
    for (int i = 0; i < group.split_choices; ++i) {
      if (group.all_least_ms[i] > best_.most_ms()) continue;
      set_instances(group, i);
      for (size_t launch = pairs.size(); launch-- > 1;) {
        rest_ms_[launch][i] = rest_ms_[launch + 1][i] + instances_[pairs[launch]][i].least_ms;
      }
    }
  }

  // Of a pair of shapes.
  static size_t row_of(const FoldedWork& fold, int32_t pair) {
    return pair / fold.problem.column_shapes;
  }
  static size_t column_of(const FoldedWork& fold, int32_t pair) {
    return pair % fold.problem.column_shapes;
  }

  // The splits of a tile. Most take too long, so that only what the estimate needs is worked out
  // first.
  void add(const TileGroup& group, const ListedTile& listed) {
    if (!listed.repeats) ++trials_;
    const int32_t tile = listed.index;
    const TileFacts& facts = facts_[tile];
    const int kind = group.fold * kKindsOfFold + facts.kind;
    double most_ms = best_.most_ms(kind);
    if (group.least_ms > most_ms || !spans_32_bits_[facts.log_images]) return;
    int32_t stages = -1;  // not yet known
    for (int i = 0; i < group.split_choices; ++i) {
      if (group.all_least_ms[i] > most_ms) continue;
      const double ms = estimate(group, tile, i, most_ms);
      if (ms == kCannot) return;
      if (ms > most_ms) continue;
      if (stages < 0) stages = stages_of(group, tile);
      if (stages == 0) return;
      best_.add(ms, kind);
      most_ms = best_.most_ms(kind);
      found_.push_back({.estimated_ms = ms,
                        .order = group.fold * kMaxOrderOfFold + tile * kSplitChoices + i,
                        .kind = kind,
                        .tile = tile,
                        .stages = stages,
                        .splits = 1 << i,
                        .fold = fold_->choice,
                        .workspace_bytes = group.workspace_bytes[i]});
    }
  }

  // All launches, that of the packing and that of zeros; infinity as soon as they are seen to take
  // too long. kCannot where a launch cannot have the tile. What is known of a launch holds for
  // those of the same shapes, and for tiles that repeat this one's blocks.
  double estimate(const TileGroup& group, int32_t tile, int split_choice, double most_ms) {
    double ms = group.pack_ms[split_choice];
    const std::vector<int32_t>& pairs = fold_->pairs;
    for (size_t launch = 0; launch < pairs.size(); ++launch) {
      if (launch > 0 && ms + rest_ms_[launch][split_choice] > most_ms) return HUGE_VAL;
      const int32_t pair = pairs[launch];
      OfPair& of_pair = of_pairs_[pair];
      if (of_pair.estimated_for[split_choice] != trials_) {
        if (of_pair.counted_for != trials_) {
          of_pair.counted_for = trials_;
          of_pair.fits = count(group, tile, pair);
        }
        if (!of_pair.fits) return kCannot;
        of_pair.estimated_for[split_choice] = trials_;
        of_pair.ms[split_choice] =
            estimate_ms(instances_[pair][split_choice].work, of_pair.work, rates_);
      }
      ms += of_pair.ms[split_choice];
    }
    return zeros_ms_ > 0 ? ms + zeros_ms_ : ms;
  }
  static constexpr double kCannot = -1;

  // The axes of the launch of a pair of shapes; null where it cannot have the tile.
  struct Axes {
    const AxisPart *row, *column;
  };
  Axes axes_of(int32_t tile, int32_t pair) {
    const AxisPart* const row = fold_->rows[row_of(*fold_, pair)];
    const AxisPart* const column = fold_->columns[column_of(*fold_, pair)];
    if (!facts_[tile].is_flat) return {row, column};
    flat_ = flat_parts(fold_->problem, tiles_[tile], *row, *column);
    return flat_ ? Axes{&flat_->row, &flat_->column} : Axes{nullptr, nullptr};
  }

  // What the tile makes of the work of a pair of shapes. False where it cannot have the tile.
  bool count(const TileGroup& group, int32_t tile, int32_t pair) {
    const TileFacts& facts = facts_[tile];
    OfPair& of_pair = of_pairs_[pair];
    const FoldedWork& fold = *fold_;
    AxisCount h = of_pair.rows[facts.row_size], w = of_pair.columns[facts.column_size];
    if (!facts.suits_all) {
      const Axes axes = axes_of(tile, pair);
      if (axes.row == nullptr ||
          !suits_launch(fold.problem, tiles_[tile], group.row_tiles, *axes.row, *axes.column)) {
        return false;
      }
      if (facts.is_flat) {
        const WindowShape& window = fold.problem.window_of(*axes.column, tiles_[tile].width);
        h = count_of(make_axis_tiling(axes.row->window, facts.rows));
        w = count_of(make_columns_tiling(window, tiles_[tile], facts.columns));
      }
    }
    const double tiles = group_tiles_ * image_tiles_[facts.log_images] * h.blocks * w.blocks;
    const int64_t cells = int64_t{h.cells} * w.cells << facts.log_images;
    if (tiles > INT32_MAX || cells > kMaxShared / stage_bytes(kLeastStages)) return false;
    const Work& work = fold.works[pair];
    const bool one_line = facts.is_line && work.destination_w == 1;
    const bool is_cut = work.cut && !copies_lines(tiles_[tile]);
    of_pair.work = {
        .tiles = tiles,
        .window_cells = static_cast<int32_t>(cells),
        .one_line = one_line,
        .bytes_ms = is_cut ? cut_bytes_ms(work, one_line ? 0 : cut_sectors_, facts.columns, rates_)
                           : work.whole_bytes_ms};
    return true;
  }

  int32_t stage_bytes(int32_t window_cells) const {
    return window_cells * terms_of(plan_) * kChunkBytes;
  }

  // How many windows a block has in all launches, which are counted; 0 where shared memory holds
  // too few, or where a launch cannot have the tile.
  int32_t stages_of(const TileGroup& group, int32_t index) {
    const Tile& tile = tiles_[index];
    const TileFacts& facts = facts_[index];
    const FoldedWork& fold = *fold_;
    const TileCounts counts{.rows = facts.rows,
                            .columns = facts.columns,
                            .images = 1 << facts.log_images,
                            .image_tiles = 0,  // which no window depends on
                            .row_tiles = group.row_tiles};
    StageCount stages(tile, problem_.type, plan_.precise);
    for (int32_t pair = 0; pair < std::ssize(fold.works); ++pair) {
      const int32_t window_cells = of_pairs_[pair].work.window_cells;
      const int32_t taps = fold.works[pair].taps;
      const Axes axes = axes_of(index, pair);
      if (!is_in_reach(fold.problem, tile, counts, *axes.row, *axes.column)) return 0;
      const WindowShape& window = fold.problem.window_of(*axes.column, tile.width);
      const int32_t entries = entries_of(window_cells, window.even);
      const auto others =
          static_cast<int32_t>(make_layout(0, tile, fold.problem.element_bytes, entries, taps).end +
                               (tile.copied ? kCopiedAlignment : 0));
      stages.add(stage_bytes(window_cells), others, taps);
    }
    return stages.count();
  }

  static constexpr int32_t kMaxOrderOfFold = 1 << 20;

  const Conv2dProblem& problem_;
  const Rates rates_;
  const std::vector<Tile>& tiles_;
  const std::vector<TileFacts>& facts_;
  const TileSizes& sizes_;
  BestOfKinds& best_;
  std::vector<Found> found_;
  Plan plan_;  // what is being looked at
  double zeros_ms_ = 0;
  double cut_sectors_ = 0;
  std::vector<FoldedWork> folds_;
  std::vector<AxisCounts> counts_;  // of each fold
  std::array<int32_t, kSplitChoices> split_chunks_{};
  int split_choices_ = 0;
  // Of tiles of 1, 2, 4 and 8 images.
  std::array<bool, 4> spans_32_bits_{};
  std::array<double, 4> image_tiles_{};
  std::optional<FlatParts> flat_;  // of axes_of()
  std::vector<TileGroup> groups_;
  // Of the group that is looked at: the instances of each pair of shapes, by splits, and a lower
  // bound of what each launch takes with all after it.
  std::vector<std::array<Instance, kSplitChoices>> instances_;
  std::vector<OfSplits> rest_ms_;
  double group_tiles_ = 0;  // its tiles of rows
  const FoldedWork* fold_ = nullptr;
  // What is known of each pair of shapes, and for which of the tiles.
  struct OfPair {
    const AxisCount *rows = nullptr, *columns = nullptr;
    int32_t counted_for = 0;
    bool fits = false;  // whether its launch can have the tile
    TileWork work = {};
    std::array<int32_t, kSplitChoices> estimated_for = {};
    OfSplits ms = {};
  };
  std::vector<OfPair> of_pairs_;
  int32_t trials_ = 0;  // tiles that repeat none
};

}  // namespace

std::vector<Found> search_tiles(const Conv2dProblem& problem, Direction direction, bool precise,
                                const Chip& chip, BestOfKinds& best) {
  return Search(problem, direction, precise, chip, best).run();
}

}  // namespace haloconv::halo
