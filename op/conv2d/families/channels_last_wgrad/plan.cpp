#include "conv2d/families/channels_last_wgrad/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "conv2d/families/channels_last_wgrad/costs.h"
#include "conv2d/families/channels_last_wgrad/layout.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/families/channels_last_wgrad/tiles.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;
constexpr int64_t kMostBoxSide = 256;
constexpr int32_t kMostGroups = 16;  // of eight pixels in a stage

// The patch that wastes the least pixels, the larger one of equals.
Patch best_patch(const Conv2dProblem& problem, bool rows_share, bool flat, int64_t bytes_of_pixel) {
  if (flat) return {bytes_of_pixel <= 256 ? 128 : 64, 1, 1};
  Patch best;
  int64_t least = INT64_MAX;
  const auto offer = [&](int32_t rows, int32_t images) {
    const int64_t patches = ceil_div(problem.p(), rows) * ceil_div(problem.n, images);
    const int64_t cost = patches * (rows * images + 1);  // a stage costs a little itself
    if (cost >= least) return;
    least = cost;
    best = {8, rows, images};
  };
  const auto most = static_cast<int32_t>(bytes_of_pixel <= 512 ? kMostGroups : 14);
  for (int32_t rows = 2; rows <= most; rows += 2) offer(rows, 1);
  if (!rows_share && problem.p() <= most / 2) {
    const auto p = static_cast<int32_t>(problem.p());
    for (int32_t images = 2; images * p <= most; ++images) {
      if (images * p % 2 == 0) offer(p, images);
    }
  }
  return best;
}

class Planner {
 public:
  Planner(const Conv2dProblem& problem, int multiprocessors, bool with_bias)
      : problem_(problem), multiprocessors_(multiprocessors), with_bias_(with_bias) {}

  std::vector<Plan> run(size_t most) {
    const bool flat = is_flat(problem_);
    for (const TileKind& kind : kTileKinds) {
      if (is_of_use(kind)) consider(kind, flat);
    }
    std::stable_sort(plans_.begin(), plans_.end(),
                     [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; });
    if (plans_.size() > most) plans_.resize(most);
    return plans_;
  }

 private:
  // Whether the kind's taps share boxes, and as many as there are.
  bool is_of_use(const TileKind& kind) const {
    const ColumnSpan span(kind);
    if (span.taps > 1 && (problem_.stride_w != 1 || problem_.s < 2)) return false;
    if (span.rows > 1 && (problem_.stride_h != 1 || problem_.r < 2)) return false;
    if (span.taps == 1 && problem_.stride_w == 1 && problem_.s >= 3) return false;
    return kind.tile.width == 64 || problem_.c <= kind.tile.width * 3;
  }

  void consider(const TileKind& kind, bool flat) {
    const ColumnSpan span(kind);
    Plan plan;
    plan.tile = kind.tile;
    plan.columns = kind.columns;
    plan.flat = flat;
    plan.with_bias = with_bias_;
    plan.patch =
        best_patch(problem_, span.rows > 1, flat, kind.tile.rows() * 2 + span.channels * 2);
    const Layout layout(problem_, plan.tile, plan.columns, plan.patch, flat);
    if (layout.box_w > kMostBoxSide || layout.box_h > kMostBoxSide) return;
    const int64_t stage_bytes = layout.stage_bytes(plan.tile);
    plan.stages = static_cast<int32_t>(std::min<int64_t>(kMaxStages, kMaxRingBytes / stage_bytes));
    if (plan.stages < 2) return;

    Plan best;
    best.estimated_ms = INFINITY;
    for (const int32_t cluster_blocks : {1, 2, 4, 8}) {
      if (cluster_blocks > 1 && plan.tile.values() * 4 > plan.stages * stage_bytes) continue;
      const int64_t at_once = blocks_at_once(multiprocessors_, cluster_blocks);
      int64_t last_splits = 0;
      for (int64_t waves = 1; waves <= 6; ++waves) {
        const int64_t most = layout.patches / cluster_blocks;
        if (most == 0) break;
        const int64_t splits =
            std::clamp<int64_t>(at_once * waves / (layout.tiles() * cluster_blocks), 1, most);
        if (splits == last_splits) continue;
        last_splits = splits;
        plan.cluster_blocks = cluster_blocks;
        plan.outer_splits = static_cast<int32_t>(splits);
        plan.workspace_bytes =
            splits == 1 ? 0 : splits * (layout.tiles() * plan.tile.values() + problem_.k) * 4;
        if (plan.workspace_bytes > kMostWorkspaceBytes) break;
        plan.estimated_ms = estimated_ms(problem_, plan, layout, multiprocessors_);
        if (plan.estimated_ms < best.estimated_ms) best = plan;
      }
    }
    if (std::isfinite(best.estimated_ms)) plans_.push_back(best);
  }

  const Conv2dProblem& problem_;
  int multiprocessors_;
  bool with_bias_;
  std::vector<Plan> plans_;
};

}  // namespace

bool is_flat(const Conv2dProblem& problem) {
  const auto is_even = [&](const Strides& strides, int64_t h, int64_t w) {
    return (h == 1 || strides.h == w * strides.w) &&
           (problem.n == 1 || strides.n == h * w * strides.w);
  };
  const bool one_tap = problem.r == 1 && problem.s == 1 && problem.stride_h == 1 &&
                       problem.stride_w == 1 && problem.pad_top == 0 && problem.pad_bottom == 0 &&
                       problem.pad_left == 0 && problem.pad_right == 0;
  return one_tap && is_even(problem.input, problem.h, problem.w) &&
         is_even(problem.output, problem.p(), problem.q());
}

std::string declines(const Conv2dProblem& problem) {
  if (problem.type != DataType::kBFloat16 && problem.type != DataType::kFloat16) {
    return "takes bfloat16 and float16";
  }
  if (problem.groups != 1) return "takes no groups";
  if (problem.input.c != 1 || problem.output.c != 1 || problem.filter.c != 1) {
    return "takes tensors with channels innermost";
  }
  if (problem.c % 8 != 0 || problem.k % 8 != 0) {
    return "takes channels in multiples of 8";
  }
  for (const Strides* strides : {&problem.input, &problem.output, &problem.filter}) {
    for (const int64_t stride : {strides->n, strides->h, strides->w}) {
      if (stride % 8 != 0) return "takes strides that are multiples of 16 bytes";
    }
  }
  if (problem.stride_h > 8 || problem.stride_w > 8) return "takes strides of the window up to 8";
  if (problem.n * problem.p() * problem.q() >= (int64_t{1} << 31)) {
    return "takes fewer than 2^31 output pixels";
  }
  return "";
}

std::vector<Plan> plans(const Conv2dProblem& problem, int multiprocessors, bool with_bias,
                        size_t most) {
  return Planner(problem, multiprocessors, with_bias).run(most);
}

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  static constexpr char kAlong[] = {'c', 's', 'r'};
  const Tile& tile = plan.tile;
  os << tile.rows() << " x (" << tile.column_warpgroups
     << kAlong[static_cast<int>(plan.columns.warpgroup)] << " x " << tile.instructions
     << kAlong[static_cast<int>(plan.columns.instruction)] << " x " << tile.chunks
     << kAlong[static_cast<int>(plan.columns.chunk)] << " x " << tile.width << "), patches of "
     << plan.patch.images << " x " << plan.patch.rows << " x " << plan.patch.columns << ", "
     << plan.stages << " stages, splits " << plan.outer_splits << " x " << plan.cluster_blocks;
  return os;
}

}  // namespace haloconv::sm90::channels_last_wgrad
