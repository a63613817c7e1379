#include "conv2d/families/channels_last_wgrad/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ostream>

#include "conv2d/families/channels_last_wgrad/costs.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/families/channels_last_wgrad/tiles.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/flat_pixels.h"
#include "conv2d/geometry/hopper_channels.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/met_bytes.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;
constexpr int64_t kMostBoxSide = 256;
constexpr int32_t kMostGroups = 16;  // of eight pixels in a stage
constexpr int32_t kLeastStages = 3;
constexpr int64_t kMostWaves = 3;
constexpr double kLeastWaste = 0.04;  // of pixels, for which images are put side by side

bool is_taken(int64_t stride, int64_t extent) {
  return extent == 1 || (stride != 0 && stride % 8 == 0);
}

// Whether tensor maps take the strides of a tensor of n x h x w pixels.
bool are_taken(const Strides& strides, int64_t n, int64_t h, int64_t w) {
  return is_taken(strides.n, n) && is_taken(strides.h, h) && is_taken(strides.w, w);
}

// The same of grad_output with its rows innermost.
bool are_rows_taken(const Conv2dProblem& problem) {
  const Strides& strides = problem.output;
  return is_taken(strides.n, problem.n) && is_taken(strides.c, problem.k) &&
         is_taken(strides.h, problem.p());
}

// The patch of at most so many groups that wastes the least pixels and stages.
Patch best_patch(const Conv2dProblem& problem, int32_t groups, bool shares_rows) {
  Patch best;
  int64_t least = INT64_MAX;
  const auto offer = [&](int32_t rows, int32_t images) {
    const int64_t patches = ceil_div(problem.p(), rows) * ceil_div(problem.n, images);
    const int64_t cost = patches * (rows * images + 1);  // a stage costs a little itself
    if (cost >= least) return;
    least = cost;
    best = {8, rows, images};
  };
  for (int32_t rows = 2; rows <= groups; rows += 2) offer(rows, 1);
  const auto p = static_cast<int32_t>(std::min<int64_t>(problem.p(), kMostGroups));
  for (int32_t images = 2; !shares_rows && images * p <= groups; ++images) {
    if (images * p % 2 == 0) offer(p, images);
  }
  return best;
}

// The patch with images innermost whose columns waste the least pixels, halos and stages, or one
// without images where none fits.
Patch best_images_patch(const Conv2dProblem& problem, const Tile& tile, const ColumnSpan& span) {
  const TapSteps taps(problem.s, problem.stride_w, problem.dilation_w);
  const TapSteps rows(problem.r, problem.stride_h, problem.dilation_h);
  const int64_t halo = int64_t{span.taps - 1} * taps.shift;
  const int64_t box_rows = int64_t{span.rows - 1} * rows.shift + 1;
  Patch best{.images = 0};
  int64_t least = INT64_MAX;
  for (int32_t images = 8; images <= 16; images += 8) {
    const auto most = static_cast<int32_t>(std::min<int64_t>(problem.q(), kMostGroups));
    for (int32_t columns = 1; columns <= most; ++columns) {
      const int32_t groups = columns * images / 8;
      if (groups % 2 != 0 || groups > kMostGroups) continue;
      const int64_t pixel_channels =
          columns * tile.rows() + (columns + halo) * box_rows * span.channels;
      if (pixel_channels * images * 2 * kLeastStages > kMaxRingBytes) continue;
      const int64_t patches = ceil_div(problem.q(), columns) * ceil_div(problem.n, images);
      // In units of a pixel's rows and columns of sums, whose group takes a stage's own time.
      const int64_t cost = patches * (pixel_channels * images / 8 + tile.rows() + span.channels);
      if (cost >= least) continue;
      least = cost;
      best = {.columns = columns, .rows = 1, .images = images, .images_innermost = true};
    }
  }
  return best;
}

// Where the sums of a tile meet.
enum class WayToAdd { kInBlock, kInCluster, kInSecondKernel, kInPairs, kInClusters };

WayToAdd way_to_add(const Plan& plan) {
  const int32_t blocks = plan.cluster_splits;
  if (plan.outer_splits == 1) return blocks == 1 ? WayToAdd::kInBlock : WayToAdd::kInCluster;
  // First in clusters, which was the fastest where a filter is one tile. Filters of several have so
  // many plans that others' would not be timed.
  if (blocks == 1 || plan.layout.tiles() > 1) return WayToAdd::kInSecondKernel;
  return blocks == 2 ? WayToAdd::kInPairs : WayToAdd::kInClusters;
}

class Planner {
 public:
  Planner(const Conv2dProblem& problem, const Chip& chip, bool with_bias, bool every)
      : problem_(problem),
        chip_(chip),
        with_bias_(with_bias),
        every_(every),
        has_output_rows_(has_output_rows(problem)),
        is_flat_(!has_output_rows_ && is_flat(problem)),
        met_bytes_(met_bytes(problem, Direction::kWgrad)) {}

  std::vector<Plan> run() {
    for (const TileKind& kind : tile_kinds_of(has_output_rows_)) {
      if (!is_of_use(kind)) continue;
      if (has_output_rows_) {
        consider_rows(kind);
      } else {
        consider(kind);
      }
    }
    sort_fastest_first(plans_);
    return std::move(plans_);
  }

 private:
  // Whether the kind's taps can share boxes, as many as there are do, and the tile is not half
  // empty where a smaller one is not.
  bool is_of_use(const TileKind& kind) const {
    const ColumnSpan span(kind);
    const bool is_too_large =
        kind.tile.rows() - 64 >= problem_.k || span.channels - kind.tile.width >= problem_.c;
    if (is_too_large && !every_) return false;
    const TapSteps taps(problem_.s, problem_.stride_w, problem_.dilation_w);
    const TapSteps rows(problem_.r, problem_.stride_h, problem_.dilation_h);
    if (span.taps > 1 && taps.of_kind < 2) return false;
    if (span.rows > 1 && rows.of_kind < 2) return false;
    if (span.taps == 1 && problem_.stride_w == 1 && problem_.s >= 3 && !every_) return false;
    return kind.tile.width == 64 || problem_.c <= kind.tile.width * 3;
  }

  Patch patch_of(const TileKind& kind) const {
    const ColumnSpan span(kind);
    const int32_t group_bytes = 8 * 2 * (kind.tile.rows() + span.channels);
    if (is_flat_) return {group_bytes <= 2048 ? 128 : 64, 1, 1};
    constexpr int64_t kStages = 4;  // that shall fit, before halos
    const auto groups = static_cast<int32_t>(kMaxRingBytes / kStages / group_bytes);
    return best_patch(problem_, std::min(groups, kMostGroups), span.rows > 1);
  }

  // Images side by side only where rows waste pixels, and if that is expected to be better.
  void consider(const TileKind& kind) {
    std::vector<Plan> plans = plans_with(kind, patch_of(kind));
    const bool rows_suffice = !plans.empty() && wasted_pixels(plans.front().layout) < kLeastWaste;
    const Patch images = best_images_patch(problem_, kind.tile, ColumnSpan(kind));
    if (!is_flat_ && images.images > 0 && (every_ || !rows_suffice)) {
      add_or_improve(plans, plans_with(kind, images));
    }
    plans_.insert(plans_.end(), plans.begin(), plans.end());
  }

  // Patches of one to four rows.
  void consider_rows(const TileKind& kind) {
    std::vector<Plan> plans;
    for (int32_t rows = 1; rows <= 4; ++rows) {
      add_or_improve(plans, plans_with(kind, {kRowColumns, rows, 1}));
    }
    plans_.insert(plans_.end(), plans.begin(), plans.end());
  }

  // Of a kind's plans, with several patches and splits, all are kept, or the best of each way to
  // add a tile's sums, whose times are estimated least well.
  void add_or_improve(std::vector<Plan>& plans, const Plan& plan) const {
    const auto same = std::find_if(plans.begin(), plans.end(), [&](const Plan& other) {
      return way_to_add(other) == way_to_add(plan);
    });
    if (every_ || same == plans.end()) {
      plans.push_back(plan);
    } else if (plan.estimated_ms < same->estimated_ms) {
      *same = plan;
    }
  }

  void add_or_improve(std::vector<Plan>& plans, const std::vector<Plan>& others) const {
    for (const Plan& plan : others) add_or_improve(plans, plan);
  }

  // Of the pixels of images, the part that patches have beyond grad_output.
  double wasted_pixels(const Layout& layout) const {
    const int64_t pixels = layout.strips * layout.patch.columns * layout.bands * layout.patch.rows;
    return static_cast<double>(pixels) / static_cast<double>(problem_.p() * problem_.q()) - 1;
  }

  // The best of each way to add sums, or all.
  std::vector<Plan> plans_with(const TileKind& kind, const Patch& patch) const {
    std::vector<Plan> plans;
    Plan plan{.layout = Layout(problem_, kind.tile, kind.columns, patch, is_flat_)};
    const Layout& layout = plan.layout;
    const int64_t span_w = (layout.box_w - 1) * problem_.stride_w + 1;
    const int64_t span_h = (layout.box_h - 1) * problem_.stride_h + 1;
    if (span_w > kMostBoxSide || span_h > kMostBoxSide) return plans;
    plan.stages =
        static_cast<int32_t>(std::min<int64_t>(kMaxStages, kMaxRingBytes / layout.stage_bytes()));
    // Zeros that have no room behind the ring take the place of a stage, which has more.
    if (plan.shared_bytes() > kMaxSharedBytes) --plan.stages;
    if (plan.stages < kLeastStages) return plans;
    plan.with_bias = with_bias_;
    const CostModel model(met_bytes_, plan, chip_);

    // The sums of a cluster's blocks meet where the ring was.
    const bool sums_fit = layout.tile.values() * 4 <= plan.stages * layout.stage_bytes();
    // Sharing the input was measured to help where taps share boxes too, and with one tap where
    // both blocks bring as many boxes into a ring that is not short.
    const bool helps = layout.tile_s > 1 || (layout.input_boxes % 2 == 0 && plan.stages >= 5);
    const bool shares = layout.tiles_of_k % 2 == 0 && layout.input_boxes > 1 && (helps || every_);
    for (plan.cluster_tiles = 1; plan.cluster_tiles <= (shares ? 2 : 1); ++plan.cluster_tiles) {
      const int32_t most = most_cluster_splits(plan);
      for (plan.cluster_splits = 1;
           plan.cluster_splits == 1 || (sums_fit && plan.cluster_blocks() <= kMostClusterBlocks);
           ++plan.cluster_splits) {
        const bool is_power = std::has_single_bit(static_cast<uint32_t>(plan.cluster_splits));
        if (!is_power && plan.cluster_splits != most) continue;
        if (set_outer_splits(model, plans, plan)) add_or_improve(plans, plan);
      }
    }
    return plans;
  }

  // Of the clusters that add all sums of all tiles at once, the largest.
  int32_t most_cluster_splits(const Plan& plan) const {
    const int64_t clusters = plan.layout.tiles() / plan.cluster_tiles;
    int32_t splits = kMostClusterBlocks / plan.cluster_tiles;
    while (splits > 1 && clusters_at_once(chip_, splits * plan.cluster_tiles) < clusters) --splits;
    return splits;
  }

  // What a plan must take less than to improve those of its way to add, with so many outer splits.
  double most_ms(const std::vector<Plan>& plans, int32_t outer_splits, Plan& plan) const {
    if (every_) return INFINITY;
    plan.outer_splits = outer_splits;
    const auto same = std::find_if(plans.begin(), plans.end(), [&](const Plan& other) {
      return way_to_add(other) == way_to_add(plan);
    });
    return same == plans.end() ? INFINITY : same->estimated_ms;
  }

  // With as many outer splits as fill the chip once, or some times. False where the patches are
  // fewer, or where it would improve none of the plans. Larger clusters that took turns were up to
  // a quarter slower than their estimates.
  bool set_outer_splits(const CostModel& model, const std::vector<Plan>& plans, Plan& plan) const {
    const Layout& layout = plan.layout;
    const int64_t at_once = clusters_at_once(chip_, plan.cluster_blocks()) * plan.cluster_blocks();
    const int64_t most = layout.patches / plan.cluster_splits;
    const int64_t most_waves = plan.cluster_splits > 2 ? 1 : kMostWaves;
    if (most == 0) return false;
    const auto splits_of = [&](int64_t waves) {
      return std::clamp<int64_t>(at_once * waves / (layout.tiles() * plan.cluster_splits), 1, most);
    };
    plan.estimated_ms = std::max(splits_of(1) == 1 ? most_ms(plans, 1, plan) : 0,
                                 splits_of(most_waves) > 1 ? most_ms(plans, 2, plan) : 0);
    int64_t before = 0;
    int32_t best = 0;
    for (int64_t waves = 1; waves <= most_waves; ++waves) {
      const int64_t splits = splits_of(waves);
      if (splits == before) continue;
      before = splits;
      plan.outer_splits = static_cast<int32_t>(splits);
      if (workspace_bytes(plan) > kMostWorkspaceBytes) break;
      const double ms = model.ms(plan, plan.estimated_ms);
      if (ms >= plan.estimated_ms) continue;
      plan.estimated_ms = ms;
      best = plan.outer_splits;
    }
    if (best == 0) return false;
    plan.outer_splits = best;
    plan.workspace_bytes = workspace_bytes(plan);
    return true;
  }

  int64_t workspace_bytes(const Plan& plan) const {
    const Layout& layout = plan.layout;
    if (plan.outer_splits == 1) return 0;
    return plan.outer_splits * (layout.tiles() * layout.tile.values() + problem_.k) * 4;
  }

  const Conv2dProblem& problem_;
  const Chip& chip_;
  bool with_bias_, every_, has_output_rows_, is_flat_;
  double met_bytes_;
  std::vector<Plan> plans_;
};

}  // namespace

std::string decline(const Conv2dProblem& problem, const Chip& chip) {
  const bool tf32 = true;  // float32 is declined next
  if (std::string reason = hopper_channels_decline(problem, Direction::kWgrad, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.type == DataType::kFloat32) {
    return "the element type is neither bfloat16 nor float16";
  }
  const bool output_rows = has_output_rows(problem);
  if (problem.input.c != 1 || problem.filter.c != 1 || (problem.output.c != 1 && !output_rows)) {
    return "channels are not innermost";
  }
  if (problem.c % 8 != 0) return "input channels are no multiple of 8";
  const bool takes_strides =
      are_taken(problem.input, problem.n, problem.h, problem.w) &&
      (output_rows ? are_rows_taken(problem)
                   : are_taken(problem.output, problem.n, problem.p(), problem.q())) &&
      are_taken(problem.filter, problem.k, problem.r, problem.s);
  if (!takes_strides) return "a tensor's strides are 0, or no multiples of 16 bytes";
  if (problem.stride_h > 8 || problem.stride_w > 8) return "the window's stride is more than 8";
  if (output_rows && (problem.s < 2 || problem.stride_w != 1)) {
    return "rows of the output's gradient are innermost, and taps share no boxes of the input";
  }
  if (problem.n * problem.p() * problem.q() >= (int64_t{1} << 31)) {
    return "the output has 2^31 pixels or more";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every) {
  return Planner(problem, chip, with_bias, every).run();
}

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  static constexpr const char* kAlong[] = {"channels", "taps", "rows"};
  const Layout& layout = plan.layout;
  const Tile& tile = layout.tile;
  const auto axis = [&](int32_t count, Along along) {
    if (count > 1) os << count << " x " << kAlong[static_cast<int>(along)] << " x ";
  };
  os << "wgrad: tile " << tile.rows() << " x (";
  axis(tile.column_warpgroups, layout.columns.warpgroup);
  axis(tile.instructions, layout.columns.instruction);
  axis(tile.chunks, layout.columns.chunk);
  os << tile.width << "), patches of " << layout.patch.images << " x " << layout.patch.rows << " x "
     << layout.patch.columns << " pixels"
     << (layout.patch.images_innermost ? ", images innermost, in " : " in ") << plan.stages
     << " stages, " << plan.outer_splits << " x " << plan.cluster_splits << " splits";
  if (plan.cluster_tiles > 1) os << ", " << plan.cluster_tiles << " tiles share the input";
  return os << ", workspace " << plan.workspace_bytes;
}

}  // namespace haloconv::sm90::channels_last_wgrad
